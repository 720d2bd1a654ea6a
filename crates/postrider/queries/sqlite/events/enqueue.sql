-- Stores events in the caller's transaction; route_deliveries.sql and route_expected.sql follow. ?1 events as a JSON array, ?2
-- keep events without a subscriber. Returns what was stored; a known id is skipped. MATERIALIZED: each event is parsed once and
-- not once per column.
WITH input AS MATERIALIZED (SELECT value FROM json_each(?1)),
event AS (
    SELECT i.value, c.now,
           EXISTS (SELECT 1 FROM postrider_subscription s
                   WHERE s.topic IN (json_extract(i.value, '$.topic'), '*') AND s.enabled AND NOT s.removed) AS heard
    -- In the order of the array, which becomes the order of seq.
    FROM input i CROSS JOIN postrider_clock c
)
INSERT INTO postrider_event (
    event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id, parent_event_id,
    aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
    occurred_at, expire_at, deliver_at, max_attempts, exchange, routing_key, created_at, waits_for)
SELECT json_extract(value, '$.event_id'), json_extract(value, '$.topic'), json_extract(value, '$.event_key'),
       json_extract(value, '$.payload'), json_extract(value, '$.payload_type'), json_extract(value, '$.payload_encoding'),
       json_extract(value, '$.trace_id'), json_extract(value, '$.span_id'), json_extract(value, '$.parent_event_id'),
       json_extract(value, '$.aggregate_type'), json_extract(value, '$.aggregate_id'), json_extract(value, '$.tenant_id'),
       json_extract(value, '$.store_id'), json_extract(value, '$.initiator'), json_extract(value, '$.metadata'),
       json_extract(value, '$.occurred_ms'),
       coalesce(now + json_extract(value, '$.expire_in_ms'), json_extract(value, '$.expire_ms')),
       coalesce(now + json_extract(value, '$.deliver_in_ms'), json_extract(value, '$.deliver_ms')),
       json_extract(value, '$.max_attempts'), json_extract(value, '$.exchange'), json_extract(value, '$.routing_key'),
       now, CASE WHEN NOT heard THEN json_extract(value, '$.topic') END
FROM event
WHERE heard OR ?2
ON CONFLICT (event_id) DO NOTHING
RETURNING seq, event_id, waits_for IS NULL
