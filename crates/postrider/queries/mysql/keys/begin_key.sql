-- Takes a key. ? scope, ? key, ? fingerprint, ? token, ? lease in ms. The index refuses it if the key exists.
INSERT INTO postrider_idempotency (scope, `key`, fingerprint, status, token, lock_until)
VALUES (?, ?, ?, 'PROCESSING', ?, UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND)
