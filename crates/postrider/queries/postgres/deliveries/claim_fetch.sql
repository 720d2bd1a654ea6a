-- Reads the usual columns of claimed events. $1, $2: the first and the last seq of each contiguous range: one range scan
-- instead of a search for each event. $3: payloads with more bytes are read by sql/large.rs.
SELECT e.*
FROM unnest($1::bigint[], $2::bigint[]) AS s (first, last)
CROSS JOIN LATERAL (
    SELECT seq, event_id, topic, event_key, CASE WHEN octet_length(payload) <= $3 THEN payload END, trace_id, span_id, aggregate_type, aggregate_id, tenant_id, initiator, occurred_at,
        -- Whether there is more, which claim_more.sql reads: each column costs time, even if it is empty.
        payload_type <> 'application/json' OR payload_encoding IS NOT NULL OR parent_event_id IS NOT NULL OR store_id IS NOT NULL
            OR metadata IS NOT NULL OR expire_at IS NOT NULL OR deliver_at IS NOT NULL OR max_attempts IS NOT NULL
            OR exchange IS NOT NULL OR routing_key IS NOT NULL
    FROM postrider_event
    WHERE seq BETWEEN s.first AND s.last
    -- OFFSET 0 fixes the join order: from each range to its events.
    OFFSET 0
) e
