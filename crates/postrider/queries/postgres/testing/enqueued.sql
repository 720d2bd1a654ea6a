-- For tests: every event of a topic. $1 topic.
SELECT event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id,
    parent_event_id, aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
    occurred_at, expire_at, deliver_at, max_attempts, exchange, routing_key
FROM postrider_event WHERE topic = $1 ORDER BY seq
