-- The deliveries of each key from its first up to the last in the window, in any order. ? keys as JSON [{key, upto}], ? lane, ?
-- whether a dead delivery holds its key. Locks nothing.
SELECT d.id, d.event_key, d.event_seq,
       d.place <> 3 AND d.due_at <= UTC_TIMESTAMP(6) AND (d.lock_until IS NULL OR d.lock_until <= UTC_TIMESTAMP(6)),
       d.token IS NULL AND (d.place = 3 OR d.due_at > UTC_TIMESTAMP(6))
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    event_key VARCHAR(256) CHARACTER SET utf8mb4 PATH '$.key', upto BIGINT PATH '$.upto')) w
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (postrider_delivery_key)
    ON d.event_key = w.event_key AND d.lane = ? AND d.event_seq <= w.upto AND (d.place <> 3 OR (? AND d.skipped_at IS NULL))
