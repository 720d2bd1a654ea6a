-- ?1 id.
SELECT id, state, filter, options, total, done, failed, skipped, position, lock_owner, created_at, updated_at, finished_at
FROM postrider_operation WHERE id = ?1
