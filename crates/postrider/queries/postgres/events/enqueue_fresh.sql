-- Stores one event that says no more than most do, whose id was drawn for it and whose one lane is known, in the caller's
-- transaction. This is what producers wait for, and every value, every table and every clause costs: enqueue_known.sql does the
-- same where the id may exist or there are more lanes, enqueue.sql whatever the audience, and whatever there is to say.
-- $1 event id, $2 topic, $3 key, $4 payload, $5 and $6 trace and span id, $7 and $8 aggregate, $9 tenant, $10 initiator,
-- $11 occurred at, $12 shard, $13 place, $14 version of the audience, $15 its lane.
-- Nothing is written if the subscriptions have changed. Their version comes from the catalogs, which each session has in memory.
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
