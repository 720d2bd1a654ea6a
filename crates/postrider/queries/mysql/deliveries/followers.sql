-- The rest of the runs whose deliveries have failed. ? [{lane, key, seq}] as JSON: the first failure of each key; ? token.
SELECT d.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    lane VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.lane', event_key VARCHAR(256) CHARACTER SET utf8mb4 PATH '$.key',
    seq BIGINT PATH '$.seq')) f
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (postrider_delivery_key)
    ON d.event_key = f.event_key AND d.lane = f.lane AND d.event_seq > f.seq
WHERE d.token = ?
