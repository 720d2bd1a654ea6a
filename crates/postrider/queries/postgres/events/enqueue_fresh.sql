-- Stores one event with only the usual fields, a generated id and one known lane, in the caller's transaction. Producers wait
-- for this statement, and every value, table and clause costs time. enqueue_known.sql does the same if the id may exist or
-- there are more lanes; enqueue.sql handles any audience and all fields. $1 event id, $2 topic, $3 key, $4 payload, $5 and $6
-- trace and span id, $7 and $8 aggregate, $9 tenant, $10 initiator, $11 occurred at, $12 shard, $13 place, $14 version of the
-- audience, $15 its lane. Writes nothing if the subscriptions have changed. Their version is read from the catalogs, which each
-- session caches.
WITH stored AS (
    INSERT INTO postrider_event (
        event_id, topic, event_key, payload, trace_id, span_id, aggregate_type, aggregate_id, tenant_id, initiator,
        occurred_at, waits_for)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, NULL
    WHERE (pg_sequence_parameters('postrider_audience_version'::regclass)).start_value = $14
    RETURNING seq
)
INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
SELECT seq, $15, $12, $13, $3, now() FROM stored
