-- The oldest that nobody works on.
SELECT id FROM postrider_operation
WHERE state = 'RUNNING' AND (token IS NULL OR lock_until <= UTC_TIMESTAMP(6))
ORDER BY number LIMIT 1
FOR UPDATE SKIP LOCKED
