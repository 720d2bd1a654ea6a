-- ? scope, ? key.
SELECT fingerprint, status, result FROM postrider_idempotency WHERE scope = ? AND `key` = ?
