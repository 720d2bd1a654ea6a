-- Stores one event that says no more than most do, in the caller's transaction; enqueue.sql does the same for those that say
-- more. Every value and every look at what is heard costs, and this is what producers wait for. $1 event id, $2 topic, $3 key,
-- $4 payload, $5 and $6 trace and span id, $7 and $8 aggregate, $9 tenant, $10 initiator, $11 occurred at, $12 shard.
-- No row: the id is known, or no lane hears the topic, and nothing was written; enqueue.sql knows what to do then.
WITH heard AS MATERIALIZED (
    SELECT lane, remote FROM postrider_subscription WHERE topic IN ($2, '*') AND heard
), stored AS (
    INSERT INTO postrider_event (
        event_id, topic, event_key, payload, trace_id, span_id, aggregate_type, aggregate_id, tenant_id, initiator,
        occurred_at, routing)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'ROUTED'
    WHERE EXISTS (SELECT 1 FROM heard WHERE lane IS NOT NULL)
    ON CONFLICT (event_id) DO NOTHING
    RETURNING seq
)
INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
SELECT e.seq, h.lane, $12, CASE WHEN $3 IS NULL THEN 0 ELSE 1 END, $3, now()
-- A consumer may hear both this topic and every topic, and all consumers of the broker share its lane. Cheaper than ON CONFLICT.
FROM stored e CROSS JOIN (SELECT DISTINCT lane FROM heard WHERE lane IS NOT NULL) h
RETURNING event_seq, EXISTS (SELECT 1 FROM heard WHERE remote)
