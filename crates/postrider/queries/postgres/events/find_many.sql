-- $1 event ids.
SELECT event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id,
    parent_event_id, aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
    occurred_at, expire_at, deliver_at, max_attempts, exchange, routing_key
FROM postrider_event WHERE event_id = ANY ($1)
