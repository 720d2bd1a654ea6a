-- Locks the row of attempt 0, so that attempts are numbered one after the other. $1 event id, $2 consumer.
SELECT c.event_seq FROM postrider_consumption c
JOIN postrider_event e ON e.seq = c.event_seq
WHERE e.event_id = $1 AND c.consumer = $2 AND c.attempt = 0
FOR UPDATE OF c
