-- ? token, ? lease in ms, ? scope, ? key: locked by take_over_key_lock.sql.
UPDATE postrider_idempotency
SET status = 'PROCESSING', token = ?, lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, updated_at = UTC_TIMESTAMP(6)
WHERE scope = ? AND `key` = ?
