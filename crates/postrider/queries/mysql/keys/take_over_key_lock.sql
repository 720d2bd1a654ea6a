-- Takes a key that failed, or whose holder's lease ran out. ? scope, ? key, ? fingerprint.
SELECT 1 FROM postrider_idempotency
WHERE scope = ? AND `key` = ? AND fingerprint = ?
  AND (status = 'FAILED' OR (status = 'PROCESSING' AND lock_until <= UTC_TIMESTAMP(6)))
-- Somebody has a transaction open on it: that is "in progress", and nothing to wait for.
FOR UPDATE SKIP LOCKED
