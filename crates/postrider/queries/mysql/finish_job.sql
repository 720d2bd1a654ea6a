-- ? result, ? error, ? name, ? token.
UPDATE postrider_job
SET finished_at = UTC_TIMESTAMP(6), last_result = ?, last_error = ?, token = NULL, lock_until = NULL
WHERE name = ? AND token = ?
