-- Takes a key. $1 scope, $2 key, $3 fingerprint, $4 token, $5 lease in ms. Returns a row if the caller got the key.
INSERT INTO postrider_idempotency (scope, key, fingerprint, status, token, lock_until)
SELECT $1, $2, $3::bytea, 'PROCESSING', $4::bigint, clock_timestamp() + $5::bigint * interval '1 ms'
-- Checks for the key first: a conflict would wait for a transaction that is open on it.
WHERE NOT EXISTS (SELECT 1 FROM postrider_idempotency WHERE scope = $1 AND key = $2)
ON CONFLICT (scope, key) DO NOTHING
RETURNING true
