-- Reads what claim_keyed.sql has leased, with events; claim_fetch.sql explains the two columns. ?1 ids as JSON, ?2 token, ?3 as ?4
-- there.
SELECT CASE WHEN octet_length(e.payload) <= ?3 THEN e.payload END,
    json_array(
        json_array(d.event_seq, d.id, d.target, d.attempts,
            e.expire_at IS NOT NULL AND e.expire_at <= (SELECT now FROM postrider_clock)),
        json_array(e.event_id, e.topic, e.event_key, CAST(e.payload_type AS TEXT), e.payload_encoding,
            CAST(e.trace_id AS TEXT), CAST(e.span_id AS TEXT), CAST(e.parent_event_id AS TEXT),
            CAST(e.aggregate_type AS TEXT), CAST(e.aggregate_id AS TEXT), CAST(e.tenant_id AS TEXT),
            CAST(e.store_id AS TEXT), CAST(e.initiator AS TEXT), CAST(e.metadata AS TEXT), e.occurred_at, e.expire_at,
            e.deliver_at, e.max_attempts, CAST(e.exchange AS TEXT), CAST(e.routing_key AS TEXT)))
FROM json_each(?1) i
CROSS JOIN postrider_delivery d ON d.id = i.value
LEFT JOIN postrider_event e ON e.seq = d.event_seq
WHERE d.token = ?2
