-- ?1 scope, ?2 key, ?3 token, ?4 error.
UPDATE postrider_idempotency SET status = 'FAILED', error = ?4, updated_at = (SELECT now FROM postrider_clock)
WHERE scope = ?1 AND key = ?2 AND token = ?3 AND status = 'PROCESSING'
