-- Takes the oldest that nobody works on. ?1 token, ?2 owner, ?3 lease in ms.
UPDATE postrider_operation SET token = ?1, lock_owner = ?2, lock_until = (SELECT now FROM postrider_clock) + ?3
WHERE number = (
    SELECT number FROM postrider_operation
    WHERE state = 'RUNNING' AND (token IS NULL OR lock_until <= (SELECT now FROM postrider_clock))
    ORDER BY number LIMIT 1)
RETURNING id, state, filter, options, total, done, failed, skipped, position, lock_owner, created_at, updated_at, finished_at
