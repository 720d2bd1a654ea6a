-- ? lease in ms, ? scope, ? key, ? token.
UPDATE postrider_idempotency SET lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, updated_at = UTC_TIMESTAMP(6)
WHERE scope = ? AND `key` = ? AND token = ? AND status = 'PROCESSING'
