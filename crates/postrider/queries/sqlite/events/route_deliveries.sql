-- Inserts the deliveries of events that were stored in the same transaction. ?1 [{seq, shard}] as JSON, by seq.
INSERT INTO postrider_delivery (event_seq, lane, shard, event_key, due_at)
SELECT e.seq, CASE s.via WHEN 'rabbitmq' THEN 'rabbitmq' ELSE s.consumer END, json_extract(i.value, '$.shard'), e.event_key,
       coalesce(e.deliver_at, (SELECT now FROM postrider_clock))
-- CROSS JOIN keeps the order of the events.
FROM json_each(?1) i
CROSS JOIN postrider_event e ON e.seq = json_extract(i.value, '$.seq')
CROSS JOIN postrider_subscription s ON s.topic IN (e.topic, '*') AND s.enabled AND NOT s.removed AND s.via <> 'external'
WHERE true
-- A consumer may subscribe to both this topic and every topic, all consumers behind the broker share its lane, and a redrive
-- may have inserted one before the event was routed.
ON CONFLICT (event_seq, lane, target) DO NOTHING
