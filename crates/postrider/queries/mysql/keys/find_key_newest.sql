-- The key as it is now, not as in the caller's snapshot. ? scope, ? key. It does not wait: a caller whose INSERT was refused
-- has this lock already.
SELECT fingerprint, status, result FROM postrider_idempotency WHERE scope = ? AND `key` = ?
LOCK IN SHARE MODE
