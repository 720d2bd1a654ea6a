-- As enqueue_fresh.sql, for an event whose id the caller chose, or with more lanes. $1 … $14 as there, $15 the lanes. Returns
-- no row and writes nothing if the id is known or the subscriptions have changed; enqueue.sql handles both.
WITH stored AS (
    INSERT INTO postrider_event (
        event_id, topic, event_key, payload, trace_id, span_id, aggregate_type, aggregate_id, tenant_id, initiator,
        occurred_at, waits_for)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, NULL
    WHERE (pg_sequence_parameters('postrider_audience_version'::regclass)).start_value = $14
    ON CONFLICT (event_id) DO NOTHING
    RETURNING seq
)
INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
SELECT seq, unnest($15::text[]), $12, $13, $3, now() FROM stored
RETURNING event_seq
