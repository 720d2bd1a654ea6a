-- Locks unheard events of any topic, if there is a subscription to every topic. ? limit.
SELECT seq, event_id, event_key, topic FROM postrider_event FORCE INDEX (postrider_event_waits)
WHERE waits_for > ''
LIMIT ?
FOR UPDATE SKIP LOCKED
