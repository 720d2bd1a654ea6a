-- Which of these events are committed. $1 event ids.
SELECT event_id FROM postrider_event WHERE event_id = ANY ($1)
