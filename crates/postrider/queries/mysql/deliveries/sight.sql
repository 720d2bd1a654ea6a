-- Which of these events are committed. ? event ids as JSON.
SELECT e.event_id
FROM JSON_TABLE(?, '$[*]' COLUMNS (event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (postrider_event_id) ON e.event_id = i.event_id
