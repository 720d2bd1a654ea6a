-- Locks a key that failed, or whose lease has ended. ? scope, ? key, ? fingerprint.
SELECT 1 FROM postrider_idempotency
WHERE scope = ? AND `key` = ? AND fingerprint = ?
  AND (status = 'FAILED' OR (status = 'PROCESSING' AND lock_until <= UTC_TIMESTAMP(6)))
-- A locked row means that the key is in progress. SKIP LOCKED answers at once instead of waiting.
FOR UPDATE SKIP LOCKED
