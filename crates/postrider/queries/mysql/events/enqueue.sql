-- Stores one event; enqueue_many.sql does the same for a batch. The parameters are the columns; each of the two times has a
-- value in ms from now, which takes precedence over the fixed one. The index refuses a known id, and the caller's transaction
-- continues.
INSERT INTO postrider_event (
    event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id, parent_event_id,
    aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
    occurred_at, expire_at, deliver_at, max_attempts, exchange, routing_key, waits_for)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
        coalesce(UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, ?), coalesce(UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, ?),
        ?, ?, ?, ?)
