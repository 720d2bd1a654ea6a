-- Locks the row that says the consumer is expected: attempts are numbered one after the other. ? event seq, ? consumer.
SELECT 1 FROM postrider_consumption
WHERE event_seq = ? AND consumer = ? AND attempt = 0
FOR UPDATE
