-- From some states to another; nobody's lease counts any more. ?1 state, ?2 id, ?3 from which state, ?4 or which.
UPDATE postrider_operation
SET state = ?1, finished_at = CASE WHEN ?1 = 'CANCELLED' THEN (SELECT now FROM postrider_clock) END, updated_at = (SELECT now FROM postrider_clock), token = NULL, lock_owner = NULL, lock_until = NULL
WHERE id = ?2 AND state IN (?3, ?4)
