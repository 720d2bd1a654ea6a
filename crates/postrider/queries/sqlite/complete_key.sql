-- ?1 scope, ?2 key, ?3 token, ?4 result.
UPDATE postrider_idempotency
SET status = 'SUCCESS', result = ?4, error = NULL, updated_at = (SELECT now FROM postrider_clock)
WHERE scope = ?1 AND key = ?2 AND token = ?3 AND status = 'PROCESSING'
