-- How many of these events are in a consumer's inbox. ? event ids as JSON, ? consumer.
SELECT count(*)
FROM JSON_TABLE(?, '$[*]' COLUMNS (event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$')) r
STRAIGHT_JOIN postrider_inbox i FORCE INDEX (PRIMARY) ON i.consumer = ? AND i.event_id = r.event_id
