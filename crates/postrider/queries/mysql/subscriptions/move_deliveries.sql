-- Inserts deliveries that wait another way from now on, due when their events are. ? [{seq, lane, target, shard}] as JSON, by
-- seq.
INSERT INTO postrider_delivery (event_seq, lane, target, shard, place, event_key, due_at)
SELECT e.seq, i.lane, i.target, i.shard, CASE WHEN e.event_key IS NULL THEN 0 ELSE 1 END, e.event_key,
       coalesce(e.deliver_at, UTC_TIMESTAMP(6))
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$.seq', lane VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.lane',
    target VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.target', shard TINYINT PATH '$.shard')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (PRIMARY) ON e.seq = i.seq
ON DUPLICATE KEY UPDATE shard = VALUES(shard)
