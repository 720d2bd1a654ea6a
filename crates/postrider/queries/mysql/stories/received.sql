-- Inbox rows by consumer and event. ? [[consumer, event id]] as JSON.
SELECT r.consumer, r.event_id, r.received_at, r.idempotency_key, r.result
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    consumer VARCHAR(128) CHARACTER SET utf8mb4 PATH '$[0]', event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[1]')) i
STRAIGHT_JOIN postrider_inbox r FORCE INDEX (PRIMARY) ON r.consumer = i.consumer AND r.event_id = i.event_id
