-- $1 name, $2 token, $3 result, $4 error.
UPDATE postrider_job
SET finished_at = now(), last_result = $3, last_error = $4, token = NULL, lock_until = NULL
WHERE name = $1 AND token = $2
