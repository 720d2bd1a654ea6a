-- Stores one event and its deliveries in the caller's transaction; enqueue_many.sql does the same for a batch. This one takes
-- plain values, because reading them from JSON costs as much as storing them. $1 … $23 are the columns; $18 and $20 are ms from
-- now and take precedence over the fixed times $17 and $19; $24 shard; $25 keep events without a subscriber. Returns no row if
-- the id is known.
WITH heard AS MATERIALIZED (
    SELECT consumer, via FROM postrider_subscription WHERE topic IN ($2, '*') AND enabled AND NOT removed
), stored AS (
    INSERT INTO postrider_event (
        event_id, topic, event_key, payload, payload_type, payload_encoding, trace_id, span_id, parent_event_id,
        aggregate_type, aggregate_id, tenant_id, store_id, initiator, metadata,
        occurred_at, expire_at, deliver_at, max_attempts, exchange, routing_key, waits_for)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
           $16, coalesce(now() + $18 * interval '1 ms', $17), coalesce(now() + $20 * interval '1 ms', $19), $21, $22, $23,
           CASE WHEN NOT EXISTS (SELECT 1 FROM heard) THEN $2 END
    WHERE $25 OR EXISTS (SELECT 1 FROM heard)
    ON CONFLICT (event_id) DO NOTHING
    RETURNING seq, event_id, waits_for, deliver_at
), delivered AS (
    INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
    SELECT e.seq, CASE s.via WHEN 'rabbitmq' THEN 'rabbitmq' ELSE s.consumer END, $24,
           CASE WHEN $3 IS NULL THEN 0 ELSE 1 END, $3, coalesce(e.deliver_at, now())
    FROM stored e CROSS JOIN heard s
    WHERE s.via <> 'external'
    -- DISTINCT, because a consumer may subscribe to both this topic and every topic, and all consumers behind the broker share
    -- its lane.
    ON CONFLICT (event_seq, lane, target) DO NOTHING
)
SELECT seq, event_id, waits_for IS NULL AS heard,
       EXISTS (SELECT 1 FROM heard WHERE via IN ('rabbitmq', 'external') AND consumer <> 'rabbitmq') AS remote
FROM stored
