-- From some states to another; nobody's lease counts any more. ? state, ? the same, ? id, ? from which state, ? or which.
UPDATE postrider_operation
SET state = ?, finished_at = CASE WHEN ? = 'CANCELLED' THEN UTC_TIMESTAMP(6) END, updated_at = UTC_TIMESTAMP(6), token = NULL, lock_owner = NULL, lock_until = NULL
WHERE id = ? AND state IN (?, ?)
