-- ? scope, ? key, ? fingerprint, ? token, ? lease in ms. Refused by the index: somebody has it.
INSERT INTO postrider_idempotency (scope, `key`, fingerprint, status, token, lock_until)
VALUES (?, ?, ?, 'PROCESSING', ?, UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND)
