-- Which of these events are committed. ?1 event ids as JSON.
SELECT event_id FROM postrider_event WHERE event_id IN (SELECT value FROM json_each(?1))
