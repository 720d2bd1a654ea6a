-- Makes a delivery that is not there. ? lane, ? target, ? shard, ? event seq.
INSERT INTO postrider_delivery (event_seq, lane, target, shard, place, event_key, due_at)
SELECT e.seq, ?, ?, ?, CASE WHEN e.event_key IS NULL THEN 0 ELSE 1 END, e.event_key, UTC_TIMESTAMP(6)
FROM postrider_event e WHERE e.seq = ?
