-- Takes over a key that failed, or whose lease has ended. $1 scope, $2 key, $3 fingerprint, $4 token, $5 lease in ms.
UPDATE postrider_idempotency
SET status = 'PROCESSING', token = $4, lock_until = clock_timestamp() + $5 * interval '1 ms', updated_at = now()
WHERE ctid = (
    SELECT ctid FROM postrider_idempotency
    WHERE scope = $1 AND key = $2 AND fingerprint = $3
      AND (status = 'FAILED' OR (status = 'PROCESSING' AND lock_until <= clock_timestamp()))
    -- A transaction that is open on it means "in progress", so this does not wait.
    FOR UPDATE SKIP LOCKED)
RETURNING true
