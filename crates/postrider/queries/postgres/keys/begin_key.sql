-- $1 scope, $2 key, $3 fingerprint, $4 token, $5 lease in ms. A row: the key is the caller's.
INSERT INTO postrider_idempotency (scope, key, fingerprint, status, token, lock_until)
SELECT $1, $2, $3::bytea, 'PROCESSING', $4::bigint, clock_timestamp() + $5::bigint * interval '1 ms'
-- A key that is there needs no conflict, which would wait for whoever has a transaction open on it.
WHERE NOT EXISTS (SELECT 1 FROM postrider_idempotency WHERE scope = $1 AND key = $2)
ON CONFLICT (scope, key) DO NOTHING
RETURNING true
