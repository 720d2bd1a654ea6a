-- Events that are not folded yet. $1 lower bound of seq, $2 upper bound, $3 limit.
SELECT e.seq FROM postrider_event e
WHERE e.seq > $1 AND e.seq < $2
  -- One by one (OFFSET 0): while there are few statuses the planner would join all of them with each event, and keep that plan.
  AND NOT EXISTS (SELECT 1 FROM postrider_status s WHERE s.event_seq = e.seq AND s.status IS NOT NULL OFFSET 0)
ORDER BY e.seq DESC LIMIT $3
