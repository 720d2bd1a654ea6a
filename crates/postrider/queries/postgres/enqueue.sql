-- Stores events and their deliveries in the caller's transaction. $1: events as a JSON array; $2: keep what nobody hears.
-- Answers with what was stored; a known id is left alone.
WITH input AS (
    SELECT i.*,
           EXISTS (SELECT 1 FROM postrider_subscription s
                   WHERE s.topic IN (i.topic, '*') AND s.enabled AND NOT s.removed) AS heard
    FROM json_to_recordset($1) AS i (
        event_id text, topic text, event_key text, payload text, payload_type text, payload_encoding text,
        trace_id text, span_id text, parent_event_id text, aggregate_type text, aggregate_id text,
        tenant_id text, store_id text, initiator text, metadata text,
        occurred_ms bigint, expire_ms bigint, expire_in_ms bigint, deliver_ms bigint, deliver_in_ms bigint,
        max_attempts smallint, exchange text, routing_key text, shard smallint)
), stored AS (
    INSERT INTO postrider_event (
        event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id, parent_event_id,
        aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
        occurred_at, expire_at, deliver_at, max_attempts, exchange, routing_key, routing)
    SELECT event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id, parent_event_id,
           aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
           timestamptz 'epoch' + occurred_ms * interval '1 ms',
           coalesce(now() + expire_in_ms * interval '1 ms', timestamptz 'epoch' + expire_ms * interval '1 ms'),
           coalesce(now() + deliver_in_ms * interval '1 ms', timestamptz 'epoch' + deliver_ms * interval '1 ms'),
           max_attempts, exchange, routing_key, CASE WHEN heard THEN 'ROUTED' ELSE 'UNHEARD' END
    FROM input
    WHERE heard OR $2
    ON CONFLICT (event_id) DO NOTHING
    RETURNING seq, event_id, topic, event_key, deliver_at, max_attempts, routing
), delivered AS (
    INSERT INTO postrider_delivery (event_seq, lane, shard, event_key, due_at, max_attempts)
    -- DISTINCT: a consumer may hear both this topic and every topic, and all consumers of the broker share its lane.
    SELECT DISTINCT e.seq, CASE s.via WHEN 'rabbitmq' THEN 'rabbitmq' ELSE s.consumer END, i.shard, e.event_key,
           coalesce(e.deliver_at, now()), e.max_attempts
    FROM stored e
    JOIN input i ON i.event_id = e.event_id
    JOIN postrider_subscription s ON s.topic IN (e.topic, '*') AND s.enabled AND NOT s.removed AND s.via <> 'external'
    WHERE e.routing = 'ROUTED'
    ORDER BY e.seq
), expected AS (
    INSERT INTO postrider_consumption (event_seq, consumer, attempt)
    SELECT DISTINCT e.seq, s.consumer, 0
    FROM stored e
    JOIN postrider_subscription s ON s.topic IN (e.topic, '*') AND s.enabled AND NOT s.removed
        AND s.via IN ('rabbitmq', 'external') AND s.consumer <> 'rabbitmq'
    WHERE e.routing = 'ROUTED'
)
SELECT event_id, routing FROM stored
