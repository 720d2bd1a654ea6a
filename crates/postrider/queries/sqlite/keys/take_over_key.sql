-- Takes over a key that failed, or whose lease has ended. ?1 scope, ?2 key, ?3 fingerprint, ?4 token, ?5 lease in ms.
UPDATE postrider_idempotency
SET status = 'PROCESSING', token = ?4, lock_until = (SELECT now FROM postrider_clock) + ?5,
    updated_at = (SELECT now FROM postrider_clock)
WHERE scope = ?1 AND key = ?2 AND fingerprint = ?3
  AND (status = 'FAILED' OR (status = 'PROCESSING' AND lock_until <= (SELECT now FROM postrider_clock)))
RETURNING true
