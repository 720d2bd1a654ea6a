-- Inserts deliveries that wait another way from now on, due when their events are. $1 [{seq, lane, target, shard}] as JSON, by
-- seq.
INSERT INTO postrider_delivery (event_seq, lane, target, shard, place, event_key, due_at)
SELECT e.seq, i.lane, i.target, i.shard, CASE WHEN e.event_key IS NULL THEN 0 ELSE 1 END, e.event_key, coalesce(e.deliver_at, now())
FROM json_to_recordset($1::json) AS i (seq bigint, lane text, target text, shard smallint)
JOIN postrider_event e ON e.seq = i.seq
ORDER BY e.seq
ON CONFLICT (event_seq, lane, target) DO NOTHING
