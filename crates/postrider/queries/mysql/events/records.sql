-- Events without payload, and with metadata only where it may name ids, with the stored columns of their status. ? event seqs as JSON.
SELECT e.seq, e.waits_for, e.created_at, e.expire_at IS NOT NULL AND e.expire_at <= UTC_TIMESTAMP(6),
    s.status, s.status_at, s.redrives, s.redriven_at, s.expired_at,
    e.event_id, e.topic, e.event_key, '', e.payload_type, e.payload_encoding, e.trace_id, e.span_id,
    e.parent_event_id, e.aggregate_type, e.aggregate_id, e.tenant_id, e.store_id, e.initiator,
    CASE WHEN e.metadata LIKE '%"traceId"%' OR e.metadata LIKE '%"requestId"%' OR e.metadata LIKE '%"userId"%' OR e.metadata LIKE '%"cloudEvent"%' THEN e.metadata END,
    e.occurred_at, e.expire_at, e.deliver_at, e.max_attempts, e.exchange, e.routing_key
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (PRIMARY) ON e.seq = i.seq
LEFT JOIN postrider_status s ON s.event_seq = e.seq
