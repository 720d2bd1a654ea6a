-- ? error, ? scope, ? key, ? token.
UPDATE postrider_idempotency SET status = 'FAILED', error = ?, updated_at = UTC_TIMESTAMP(6)
WHERE scope = ? AND `key` = ? AND token = ? AND status = 'PROCESSING'
