-- Takes events that have no deliveries yet: by plain INSERT, or unheard until now. $1 limit.
-- Ranges and not equality, in the order of both columns: then no other index will do, and not even a plan that was made on empty
-- tables walks along seq past a million events that wait for nothing.
WITH arrived AS MATERIALIZED (
    SELECT seq, event_id, event_key FROM postrider_event
    WHERE waits_for <= ''
    ORDER BY waits_for, seq LIMIT $1
    FOR UPDATE SKIP LOCKED
), heard AS MATERIALIZED (
    -- From the subscriptions to the events: a million events that nobody hears cost nothing.
    SELECT e.seq, e.event_id, e.event_key
    FROM (SELECT DISTINCT topic FROM postrider_subscription WHERE topic <> '*' AND enabled AND NOT removed) s
    CROSS JOIN LATERAL (
        SELECT seq, event_id, event_key FROM postrider_event
        WHERE waits_for BETWEEN s.topic AND s.topic
        ORDER BY waits_for, seq LIMIT $1
        FOR UPDATE SKIP LOCKED) e
    LIMIT $1
), heard_by_all AS MATERIALIZED (
    SELECT seq, event_id, event_key FROM postrider_event
    WHERE waits_for > ''
      AND (SELECT bool_or(true) FROM postrider_subscription WHERE topic = '*' AND enabled AND NOT removed)
    ORDER BY waits_for, seq LIMIT $1
    FOR UPDATE SKIP LOCKED
)
SELECT seq, event_id, event_key FROM arrived
UNION SELECT seq, event_id, event_key FROM heard
UNION SELECT seq, event_id, event_key FROM heard_by_all
ORDER BY seq LIMIT $1
