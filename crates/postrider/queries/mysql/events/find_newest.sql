-- The event as it is now, not as in the caller's snapshot. ? event id. It does not wait: a caller whose INSERT was refused has
-- this lock already.
SELECT e.event_id, e.topic, e.event_key, e.payload, e.payload_type, e.payload_encoding, e.trace_id, e.span_id,
    e.parent_event_id, e.aggregate_type, e.aggregate_id, e.tenant_id, e.store_id, e.initiator, e.metadata,
    e.occurred_at, e.expire_at, e.deliver_at, e.max_attempts, e.exchange, e.routing_key
FROM postrider_event e WHERE e.event_id = ?
LOCK IN SHARE MODE
