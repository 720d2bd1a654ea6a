-- $1 lower bound of seq, $2 upper bound, $3 status, $4 limit.
SELECT event_seq FROM postrider_status
-- A row comparison, which only the index of both columns can answer in order. With status = $3 the planner walks down the
-- primary key, and searches the whole table for a rare status.
WHERE (status, event_seq) > ($3, $1) AND (status, event_seq) < ($3, $2)
ORDER BY status DESC, event_seq DESC LIMIT $4
