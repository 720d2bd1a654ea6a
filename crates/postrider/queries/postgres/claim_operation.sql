-- Takes the oldest that nobody works on. $1 token, $2 owner, $3 lease in ms.
UPDATE postrider_operation SET token = $1, lock_owner = $2, lock_until = now() + $3 * interval '1 ms'
WHERE number = (
    SELECT number FROM postrider_operation
    WHERE state = 'RUNNING' AND (token IS NULL OR lock_until <= now())
    ORDER BY number LIMIT 1
    FOR UPDATE SKIP LOCKED)
RETURNING id, state, filter, options, total, done, failed, skipped, position, lock_owner, created_at, updated_at, finished_at
