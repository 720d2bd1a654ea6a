-- ? result, ? scope, ? key, ? token.
UPDATE postrider_idempotency SET status = 'SUCCESS', result = ?, error = NULL, updated_at = UTC_TIMESTAMP(6)
WHERE scope = ? AND `key` = ? AND token = ? AND status = 'PROCESSING'
