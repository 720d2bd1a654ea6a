-- Takes a key into this transaction. $1 scope, $2 key, $3 token, $4 the token that counts from here on, $5 lease in ms.
-- Its row stays locked until the transaction ends, so that nobody takes the key over meanwhile, however late it gets.
UPDATE postrider_idempotency
SET token = $4, lock_until = clock_timestamp() + $5 * interval '1 ms', updated_at = now()
WHERE scope = $1 AND key = $2 AND token = $3 AND status = 'PROCESSING'
