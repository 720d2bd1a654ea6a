-- As enqueue_fresh.sql, for an event whose id the caller chose, or with more lanes. $1 … $13 as there, $14 the lanes.
-- No row: the id is known or the subscriptions have changed, and nothing was written; enqueue.sql knows what to do then.
WITH stored AS (
    INSERT INTO postrider_event (
        event_id, topic, event_key, payload, trace_id, span_id, aggregate_type, aggregate_id, tenant_id, initiator,
        occurred_at, routing)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'ROUTED'
    WHERE (pg_sequence_parameters('postrider_audience_version'::regclass)).start_value = $13
    ON CONFLICT (event_id) DO NOTHING
    RETURNING seq
)
INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
SELECT seq, unnest($14::text[]), $12, CASE WHEN $3 IS NULL THEN smallint '0' ELSE smallint '1' END, $3, now() FROM stored
RETURNING event_seq
