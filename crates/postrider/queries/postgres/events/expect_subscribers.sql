-- Appends attempt 0 for the remote consumers of events that were just stored. $1 event seqs. A separate statement, run only if
-- there are any: most producers have none, and need not pay for the table.
INSERT INTO postrider_consumption (event_seq, consumer, attempt)
SELECT DISTINCT e.seq, s.consumer, 0
FROM postrider_event e
JOIN postrider_subscription s ON s.topic IN (e.topic, '*') AND s.enabled AND NOT s.removed
    AND s.via IN ('rabbitmq', 'external') AND s.consumer <> 'rabbitmq'
WHERE e.seq = ANY ($1)
ON CONFLICT DO NOTHING
