-- Appends failed attempts of deliveries that are locked and held by the caller. ? will retry, ? failures as JSON, ? token.
INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, will_retry, consumed_at, error, code)
SELECT d.event_seq, CASE d.target WHEN '' THEN d.lane ELSE d.target END,
       1 + coalesce((SELECT max(c.attempt) FROM postrider_consumption c
                     WHERE c.event_seq = d.event_seq AND c.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END), 0),
       FALSE, ?, UTC_TIMESTAMP(6), i.error, i.code
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', error VARCHAR(1000) CHARACTER SET utf8mb4 PATH '$.error',
    code VARCHAR(1000) CHARACTER SET utf8mb4 PATH '$.code')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.token = ?
