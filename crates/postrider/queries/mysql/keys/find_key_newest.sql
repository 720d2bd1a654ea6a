-- The key as it is now, and not as it was when the caller's snapshot was taken. ? scope, ? key. It waits for nobody: whoever
-- was refused the key has this lock already.
SELECT fingerprint, status, result FROM postrider_idempotency WHERE scope = ? AND `key` = ?
LOCK IN SHARE MODE
