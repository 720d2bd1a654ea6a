-- Locks the row of attempt 0, so that attempts are numbered one after the other. ? event seq, ? consumer.
SELECT 1 FROM postrider_consumption
WHERE event_seq = ? AND consumer = ? AND attempt = 0
FOR UPDATE
