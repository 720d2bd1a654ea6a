-- Takes a key. ?1 scope, ?2 key, ?3 fingerprint, ?4 token, ?5 lease in ms. Returns a row if the caller got the key.
INSERT INTO postrider_idempotency (scope, key, fingerprint, status, token, lock_until)
SELECT ?1, ?2, ?3, 'PROCESSING', ?4, now + ?5 FROM postrider_clock
-- Without a WHERE, the parser reads ON as part of a join.
WHERE true
ON CONFLICT (scope, key) DO NOTHING
RETURNING true
