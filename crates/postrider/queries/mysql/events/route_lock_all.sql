-- Takes whatever events nobody has heard until now: somebody hears everything. ? limit.
SELECT seq, event_id, event_key, topic FROM postrider_event FORCE INDEX (postrider_event_waits)
WHERE waits_for > ''
LIMIT ?
FOR UPDATE SKIP LOCKED
