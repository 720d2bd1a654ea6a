-- Appends attempt 0 for remote consumers that will report. ?1 [{seq, shard}] as JSON.
INSERT INTO postrider_consumption (event_seq, consumer, attempt)
SELECT e.seq, s.consumer, 0
FROM json_each(?1) i
CROSS JOIN postrider_event e ON e.seq = json_extract(i.value, '$.seq')
CROSS JOIN postrider_subscription s ON s.topic IN (e.topic, '*') AND s.enabled AND NOT s.removed
    AND s.via IN ('rabbitmq', 'external') AND s.consumer <> 'rabbitmq'
WHERE true
ON CONFLICT (event_seq, consumer, attempt) DO NOTHING
