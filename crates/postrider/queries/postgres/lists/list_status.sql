-- $1 above which seq, $2 below which, $3 status, $4 how many.
SELECT event_seq FROM postrider_status
-- As pairs, which only the index of both can answer in order: of status = $3 the planner makes a walk down the primary key,
-- and a rare status would be looked for in the whole table.
WHERE (status, event_seq) > ($3, $1) AND (status, event_seq) < ($3, $2)
ORDER BY status DESC, event_seq DESC LIMIT $4
