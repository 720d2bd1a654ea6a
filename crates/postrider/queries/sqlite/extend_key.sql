-- ?1 scope, ?2 key, ?3 token, ?4 lease in ms.
UPDATE postrider_idempotency
SET lock_until = (SELECT now FROM postrider_clock) + ?4, updated_at = (SELECT now FROM postrider_clock)
WHERE scope = ?1 AND key = ?2 AND token = ?3 AND status = 'PROCESSING'
