-- $1 scope, $2 key, $3 token, $4 lease in ms.
UPDATE postrider_idempotency SET lock_until = clock_timestamp() + $4 * interval '1 ms', updated_at = now()
WHERE scope = $1 AND key = $2 AND token = $3 AND status = 'PROCESSING'
