-- Stores events and their deliveries in the caller's transaction. $1 events as a JSON array, $2 keep events without a
-- subscriber. Returns what was stored; a known id is skipped.
WITH input AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1::json) AS i (
        event_id text, topic text, event_key text, payload text, payload_type text, payload_encoding text,
        trace_id text, span_id text, parent_event_id text, aggregate_type text, aggregate_id text,
        tenant_id text, store_id text, initiator text, metadata text,
        occurred_ms bigint, expire_ms bigint, expire_in_ms bigint, deliver_ms bigint, deliver_in_ms bigint,
        max_attempts smallint, exchange text, routing_key text, shard smallint)
), heard AS MATERIALIZED (
    SELECT topic, consumer, via FROM postrider_subscription WHERE enabled AND NOT removed
), routed AS MATERIALIZED (
    SELECT i.*, EXISTS (SELECT 1 FROM heard h WHERE h.topic IN (i.topic, '*')) AS is_heard FROM input i
), stored AS (
    INSERT INTO postrider_event (
        event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id, parent_event_id,
        aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
        occurred_at, expire_at, deliver_at, max_attempts, exchange, routing_key, waits_for)
    SELECT event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id, parent_event_id,
           aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
           timestamptz 'epoch' + occurred_ms * interval '1 ms',
           coalesce(now() + expire_in_ms * interval '1 ms', timestamptz 'epoch' + expire_ms * interval '1 ms'),
           coalesce(now() + deliver_in_ms * interval '1 ms', timestamptz 'epoch' + deliver_ms * interval '1 ms'),
           max_attempts, exchange, routing_key, CASE WHEN NOT is_heard THEN topic END
    FROM routed
    WHERE is_heard OR $2
    ON CONFLICT (event_id) DO NOTHING
    RETURNING seq, event_id, topic, event_key, deliver_at, waits_for
), delivered AS (
    INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
    SELECT e.seq, CASE h.via WHEN 'rabbitmq' THEN 'rabbitmq' ELSE h.consumer END, i.shard,
           CASE WHEN e.event_key IS NULL THEN 0 ELSE 1 END, e.event_key, coalesce(e.deliver_at, now())
    FROM stored e
    JOIN input i ON i.event_id = e.event_id
    JOIN heard h ON h.topic IN (e.topic, '*') AND h.via <> 'external'
    ORDER BY e.seq
    -- DISTINCT, because a consumer may subscribe to both this topic and every topic, and all consumers behind the broker share
    -- its lane.
    ON CONFLICT (event_seq, lane, target) DO NOTHING
)
SELECT seq, event_id, waits_for IS NULL AS heard,
       EXISTS (SELECT 1 FROM heard h WHERE h.topic IN (e.topic, '*') AND h.via IN ('rabbitmq', 'external') AND h.consumer <> 'rabbitmq')
           AS remote
FROM stored e
