-- Takes a key into this transaction. ?1 scope, ?2 key, ?3 token, ?4 the token that counts from here on, ?5 lease in ms.
UPDATE postrider_idempotency
SET token = ?4, lock_until = (SELECT now FROM postrider_clock) + ?5, updated_at = (SELECT now FROM postrider_clock)
WHERE scope = ?1 AND key = ?2 AND token = ?3 AND status = 'PROCESSING'
