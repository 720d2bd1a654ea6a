-- $1 above which seq, $2 below which, $3 how many, $4 status.
SELECT event_seq FROM postrider_status
-- As pairs, which only the index of both can answer in order: of status = $4 the planner makes a walk down the primary key,
-- and a rare status would be looked for in the whole table.
WHERE (status, event_seq) > ($4, $1) AND (status, event_seq) < ($4, $2)
ORDER BY status DESC, event_seq DESC LIMIT $3
