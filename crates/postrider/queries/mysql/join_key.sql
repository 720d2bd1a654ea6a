-- Takes a key into this transaction. ? the token that counts from here on, ? lease in ms, ? scope, ? key, ? token. Its row
-- stays locked until the transaction ends, so that nobody takes the key over meanwhile, however late it gets.
UPDATE postrider_idempotency
SET token = ?, lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, updated_at = UTC_TIMESTAMP(6)
WHERE scope = ? AND `key` = ? AND token = ? AND status = 'PROCESSING'
