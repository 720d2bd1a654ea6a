-- Makes deliveries due now, or inserts them. ? [{seq, lane, target, shard}] as JSON. Their events are locked, and none of the
-- deliveries is leased. Their attempts begin anew, behind those in the history.
INSERT INTO postrider_delivery (event_seq, lane, target, shard, place, event_key, due_at, recorded_before)
SELECT e.seq, i.lane, i.target, i.shard, CASE WHEN e.event_key IS NULL THEN 0 ELSE 1 END, e.event_key, UTC_TIMESTAMP(6),
    (SELECT coalesce(max(c.attempt), 0) FROM postrider_consumption c
     WHERE c.event_seq = e.seq AND c.consumer = CASE i.target WHEN '' THEN i.lane ELSE i.target END)
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$.seq', lane VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.lane',
    target VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.target', shard TINYINT PATH '$.shard')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (PRIMARY) ON e.seq = i.seq
ON DUPLICATE KEY UPDATE due_at = VALUES(due_at), attempts = 0, recorded_before = VALUES(recorded_before), place = VALUES(place),
    skipped_at = NULL, token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
