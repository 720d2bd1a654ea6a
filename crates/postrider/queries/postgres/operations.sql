-- The newest first. $1 how many.
SELECT id, state, filter, options, total, done, failed, skipped, position, lock_owner, created_at, updated_at, finished_at
FROM postrider_operation ORDER BY number DESC LIMIT $1
