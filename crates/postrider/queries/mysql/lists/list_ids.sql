-- Events with these ids. ? event ids as JSON.
SELECT e.seq
FROM JSON_TABLE(?, '$[*]' COLUMNS (event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (postrider_event_id) ON e.event_id = i.event_id
