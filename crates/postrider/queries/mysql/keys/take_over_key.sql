-- Takes over a key that take_over_key_lock.sql has locked. ? token, ? lease in ms, ? scope, ? key.
UPDATE postrider_idempotency
SET status = 'PROCESSING', token = ?, lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, updated_at = UTC_TIMESTAMP(6)
WHERE scope = ? AND `key` = ?
