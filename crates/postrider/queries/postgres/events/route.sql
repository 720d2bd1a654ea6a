-- Inserts the deliveries of events that route_lock.sql has locked, in the same transaction. $1: [{seq, shard}] as JSON.
WITH input AS (
    SELECT i.shard, e.seq, e.topic, e.event_key, e.deliver_at,
           EXISTS (SELECT 1 FROM postrider_subscription s
                   WHERE s.topic IN (e.topic, '*') AND s.enabled AND NOT s.removed) AS heard
    FROM json_to_recordset($1::json) AS i (seq bigint, shard smallint)
    CROSS JOIN LATERAL (SELECT * FROM postrider_event WHERE seq = i.seq OFFSET 0) e
), delivered AS (
    INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
    SELECT DISTINCT e.seq, CASE s.via WHEN 'rabbitmq' THEN 'rabbitmq' ELSE s.consumer END, e.shard,
           CASE WHEN e.event_key IS NULL THEN 0 ELSE 1 END, e.event_key,
           coalesce(e.deliver_at, now())
    FROM input e
    JOIN postrider_subscription s ON s.topic IN (e.topic, '*') AND s.enabled AND NOT s.removed AND s.via <> 'external'
    ORDER BY e.seq
    -- A redrive may have inserted one before the event was routed.
    ON CONFLICT (event_seq, lane, target) DO NOTHING
), expected AS (
    INSERT INTO postrider_consumption (event_seq, consumer, attempt)
    SELECT DISTINCT e.seq, s.consumer, 0
    FROM input e
    JOIN postrider_subscription s ON s.topic IN (e.topic, '*') AND s.enabled AND NOT s.removed
        AND s.via IN ('rabbitmq', 'external') AND s.consumer <> 'rabbitmq'
    ON CONFLICT DO NOTHING
), marked AS (
    -- Plain SQL can write an empty topic, which would read as new again.
    UPDATE postrider_event e SET waits_for = CASE WHEN NOT i.heard THEN coalesce(nullif(e.topic, ''), ' ') END
    FROM input i WHERE e.seq = i.seq
), noted AS (
    -- They were unheard until now, and lists show them so.
    INSERT INTO postrider_mark (event_seq)
    SELECT i.seq FROM input i WHERE i.heard AND EXISTS (SELECT 1 FROM postrider_status s WHERE s.event_seq = i.seq)
)
SELECT count(*) FILTER (WHERE heard), count(*) FILTER (WHERE NOT heard) FROM input
