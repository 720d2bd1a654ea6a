-- Events without payload, and with metadata only where it may name ids, with the stored columns of their status. ?1 event seqs as JSON.
SELECT e.seq, e.waits_for, e.created_at, e.expire_at IS NOT NULL AND e.expire_at <= (SELECT now FROM postrider_clock),
    s.status, s.status_at, s.redrives, s.redriven_at, s.expired_at,
    '',
    json_array(e.event_id, e.topic, e.event_key, CAST(e.payload_type AS TEXT), e.payload_encoding,
        CAST(e.trace_id AS TEXT), CAST(e.span_id AS TEXT), CAST(e.parent_event_id AS TEXT),
        CAST(e.aggregate_type AS TEXT), CAST(e.aggregate_id AS TEXT), CAST(e.tenant_id AS TEXT),
        CAST(e.store_id AS TEXT), CAST(e.initiator AS TEXT),
        CASE WHEN e.metadata LIKE '%"traceId"%' OR e.metadata LIKE '%"requestId"%' OR e.metadata LIKE '%"userId"%' OR e.metadata LIKE '%"cloudEvent"%' THEN CAST(e.metadata AS TEXT) END,
        e.occurred_at, e.expire_at,
        e.deliver_at, e.max_attempts, CAST(e.exchange AS TEXT), CAST(e.routing_key AS TEXT))
FROM json_each(?1) i
CROSS JOIN postrider_event e ON e.seq = i.value
LEFT JOIN postrider_status s ON s.event_seq = e.seq
