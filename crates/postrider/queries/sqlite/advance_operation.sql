-- ?1 id, ?2 done, ?3 failed, ?4 skipped, ?5 position, NULL at the end, ?6 lease in ms.
UPDATE postrider_operation
SET done = done + ?2, failed = failed + ?3, skipped = skipped + ?4, position = ?5,
    state = CASE WHEN ?5 IS NULL THEN 'DONE' ELSE state END, finished_at = CASE WHEN ?5 IS NULL THEN (SELECT now FROM postrider_clock) END,
    lock_until = (SELECT now FROM postrider_clock) + ?6, updated_at = (SELECT now FROM postrider_clock)
WHERE id = ?1
RETURNING id, state, filter, options, total, done, failed, skipped, position, lock_owner, created_at, updated_at, finished_at
