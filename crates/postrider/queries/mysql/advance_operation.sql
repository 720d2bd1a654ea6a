-- ? done, ? failed, ? skipped, ? position, NULL at the end, ? the same, ? the same, ? lease in ms, ? id.
UPDATE postrider_operation
SET done = done + ?, failed = failed + ?, skipped = skipped + ?, position = ?,
    state = CASE WHEN ? IS NULL THEN 'DONE' ELSE state END, finished_at = CASE WHEN ? IS NULL THEN UTC_TIMESTAMP(6) END,
    lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, updated_at = UTC_TIMESTAMP(6)
WHERE id = ?
