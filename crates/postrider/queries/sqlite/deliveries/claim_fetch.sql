-- Reads what claim.sql has leased, with events. ?1 lane, ?2 token, ?3 limit, ?4: payloads with more bytes are NULL, and are read by
-- sql/large.rs. Walks the same index from the front of the lane as the claim. RETURNING would buffer its rows until the statement ends and block the writer; this runs on a reader.
SELECT CASE WHEN octet_length(e.payload) <= ?4 THEN e.payload END,
    -- All other fields in one column: the driver copies each value, even empty ones, to another thread.
    json_array(
        json_array(d.event_seq, d.id, d.target, d.attempts,
            e.expire_at IS NOT NULL AND e.expire_at <= (SELECT now FROM postrider_clock)),
        json_array(e.event_id, e.topic, e.event_key, CAST(e.payload_type AS TEXT), e.payload_encoding,
            CAST(e.trace_id AS TEXT), CAST(e.span_id AS TEXT), CAST(e.parent_event_id AS TEXT),
            CAST(e.aggregate_type AS TEXT), CAST(e.aggregate_id AS TEXT), CAST(e.tenant_id AS TEXT),
            CAST(e.store_id AS TEXT), CAST(e.initiator AS TEXT), CAST(e.metadata AS TEXT), e.occurred_at, e.expire_at,
            e.deliver_at, e.max_attempts, CAST(e.exchange AS TEXT), CAST(e.routing_key AS TEXT)))
FROM postrider_delivery d INDEXED BY postrider_delivery_due
-- LEFT JOIN: a delivery whose event was removed by hand still counts towards the limit.
LEFT JOIN postrider_event e ON e.seq = d.event_seq
WHERE d.lane = ?1 AND d.event_key IS NULL AND NOT d.dead AND NOT d.held AND d.token = ?2
ORDER BY d.due_at, d.id
LIMIT ?3 + 0
