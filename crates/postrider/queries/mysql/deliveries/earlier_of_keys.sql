-- The deliveries of these keys, except dead ones, before the last of them in this call. ? [{lane, key, upto}] as JSON.
SELECT d.lane, d.event_key, d.event_seq, d.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    lane VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.lane', event_key VARCHAR(256) CHARACTER SET utf8mb4 PATH '$.key',
    upto BIGINT PATH '$.upto')) k
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (postrider_delivery_key)
    ON d.event_key = k.event_key AND d.lane = k.lane AND d.event_seq <= k.upto
WHERE d.place <> 3
