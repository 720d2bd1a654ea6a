-- Inserts the deliveries of events that this transaction has stored or locked. ? [{seq, lane, shard}] as JSON, by seq.
INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
SELECT e.seq, i.lane, i.shard, CASE WHEN e.event_key IS NULL THEN 0 ELSE 1 END, e.event_key,
       coalesce(e.deliver_at, UTC_TIMESTAMP(6))
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$.seq', lane VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.lane', shard TINYINT PATH '$.shard')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (PRIMARY) ON e.seq = i.seq
-- A redrive may have inserted one before the event was routed.
ON DUPLICATE KEY UPDATE event_seq = postrider_delivery.event_seq
