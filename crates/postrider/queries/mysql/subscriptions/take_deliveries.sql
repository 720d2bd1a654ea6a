-- Deletes deliveries, also leased ones: their holders find their token gone. ? [{seq, lane, target}] as JSON.
DELETE d
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$.seq', lane VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.lane',
    target VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.target')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (postrider_delivery_event)
    ON d.event_seq = i.seq AND d.lane = i.lane AND d.target = i.target
