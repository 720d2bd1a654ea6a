-- $1 scope, $2 key, $3 fingerprint, $4 token, $5 lease in ms. A row: the key is the caller's.
INSERT INTO postrider_idempotency (scope, key, fingerprint, status, token, lock_until)
VALUES ($1, $2, $3, 'PROCESSING', $4, clock_timestamp() + $5 * interval '1 ms')
ON CONFLICT (scope, key) DO NOTHING
RETURNING true
