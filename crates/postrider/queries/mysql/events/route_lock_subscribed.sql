-- Locks unheard events of these topics. ? topics as JSON, ? limit. Walks from the topics to the events: a million events
-- without a subscriber cost nothing.
SELECT e.seq, e.event_id, e.event_key, e.topic
FROM JSON_TABLE(?, '$[*]' COLUMNS (topic VARCHAR(128) CHARACTER SET utf8mb4 PATH '$')) t
STRAIGHT_JOIN postrider_event e FORCE INDEX (postrider_event_waits) ON e.waits_for = t.topic
LIMIT ?
FOR UPDATE SKIP LOCKED
