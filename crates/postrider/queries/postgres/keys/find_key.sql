-- $1 scope, $2 key.
SELECT fingerprint, status, result FROM postrider_idempotency WHERE scope = $1 AND key = $2
