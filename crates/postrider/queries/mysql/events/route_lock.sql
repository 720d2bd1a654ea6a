-- Locks events that arrived by plain INSERT. ? limit.
SELECT seq, event_id, event_key, topic FROM postrider_event FORCE INDEX (postrider_event_waits)
WHERE waits_for = ''
ORDER BY seq LIMIT ?
FOR UPDATE SKIP LOCKED
