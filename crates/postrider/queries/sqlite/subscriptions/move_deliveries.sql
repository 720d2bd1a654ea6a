-- Inserts deliveries that wait another way from now on, due when their events are. ?1 [{seq, lane, target, shard}] as JSON, by
-- seq.
INSERT INTO postrider_delivery (event_seq, lane, target, shard, event_key, due_at)
SELECT e.seq, json_extract(i.value, '$.lane'), json_extract(i.value, '$.target'), json_extract(i.value, '$.shard'), e.event_key,
       coalesce(e.deliver_at, (SELECT now FROM postrider_clock))
FROM json_each(?1) i
CROSS JOIN postrider_event e ON e.seq = json_extract(i.value, '$.seq')
WHERE true
ON CONFLICT (event_seq, lane, target) DO NOTHING
