-- For tests: every event of a topic. ?1 topic.
SELECT payload,
    json_array(event_id, topic, event_key, CAST(payload_type AS TEXT), payload_encoding,
        CAST(trace_id AS TEXT), CAST(span_id AS TEXT), CAST(parent_event_id AS TEXT),
        CAST(aggregate_type AS TEXT), CAST(aggregate_id AS TEXT), CAST(tenant_id AS TEXT),
        CAST(store_id AS TEXT), CAST(initiator AS TEXT), CAST(metadata AS TEXT), occurred_at, expire_at,
        deliver_at, max_attempts, CAST(exchange AS TEXT), CAST(routing_key AS TEXT))
FROM postrider_event WHERE topic = ?1 ORDER BY seq
