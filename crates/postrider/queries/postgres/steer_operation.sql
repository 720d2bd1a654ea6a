-- From some states to another; nobody's lease counts any more. $1 state, $2 id, $3 from which state, $4 or which.
UPDATE postrider_operation
SET state = $1::text, finished_at = CASE WHEN $1::text = 'CANCELLED' THEN now() END, updated_at = now(), token = NULL, lock_owner = NULL, lock_until = NULL
WHERE id = $2 AND state IN ($3, $4)
