-- Reads what claim.sql has leased, with events. ? bytes: larger payloads are NULL, and are read by sql/large.rs; ? lane, ? token,
-- ? limit. Walks the same index from the front of the lane as the claim, because there is no RETURNING.
SELECT d.id, d.event_seq, d.target, d.attempts, e.expire_at IS NOT NULL AND e.expire_at <= UTC_TIMESTAMP(6),
    e.seq, e.event_id, e.topic, e.event_key, CASE WHEN OCTET_LENGTH(e.payload) <= ? THEN e.payload END,
    e.payload_type, e.payload_encoding, e.trace_id, e.span_id, e.parent_event_id, e.aggregate_type, e.aggregate_id, e.tenant_id, e.store_id, e.initiator, e.metadata,
    e.occurred_at, e.expire_at, e.deliver_at, e.max_attempts, e.exchange, e.routing_key
FROM postrider_delivery d FORCE INDEX (postrider_delivery_due)
-- LEFT JOIN: a delivery whose event was removed by hand still counts towards the limit.
LEFT JOIN postrider_event e ON e.seq = d.event_seq
WHERE d.lane = ? AND d.place = 0 AND d.due_at <= UTC_TIMESTAMP(6) AND d.token = ?
ORDER BY d.due_at, d.id
LIMIT ?
