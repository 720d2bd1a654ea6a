-- ? event ids as JSON.
SELECT e.event_id, e.topic, e.event_key, e.payload, e.payload_type, e.payload_encoding, e.trace_id, e.span_id,
    e.parent_event_id, e.aggregate_type, e.aggregate_id, e.tenant_id, e.store_id, e.initiator, e.metadata,
    e.occurred_at, e.expire_at, e.deliver_at, e.max_attempts, e.exchange, e.routing_key
FROM JSON_TABLE(?, '$[*]' COLUMNS (event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (postrider_event_id) ON e.event_id = i.event_id
