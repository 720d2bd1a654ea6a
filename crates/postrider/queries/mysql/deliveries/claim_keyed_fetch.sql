-- Reads what claim_keyed.sql has leased, with events. ? bytes as in claim_fetch.sql, ? ids as JSON, ? token.
SELECT d.id, d.event_seq, d.target, d.attempts, e.expire_at IS NOT NULL AND e.expire_at <= UTC_TIMESTAMP(6),
    e.seq, e.event_id, e.topic, e.event_key, CASE WHEN OCTET_LENGTH(e.payload) <= ? THEN e.payload END,
    e.payload_type, e.payload_encoding, e.trace_id, e.span_id, e.parent_event_id, e.aggregate_type, e.aggregate_id, e.tenant_id, e.store_id, e.initiator, e.metadata,
    e.occurred_at, e.expire_at, e.deliver_at, e.max_attempts, e.exchange, e.routing_key
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
LEFT JOIN postrider_event e ON e.seq = d.event_seq
WHERE d.token = ?
