-- Locks events that have no deliveries yet: from plain INSERT, or unheard until now. $1 limit. Ranges instead of equality, in
-- the order of both columns: then the planner can use no other index, and even a plan made on empty tables does not walk along
-- seq over a million events that wait for nothing.
WITH arrived AS MATERIALIZED (
    SELECT seq, event_id, event_key FROM postrider_event
    WHERE waits_for <= ''
    ORDER BY waits_for, seq LIMIT $1
    FOR UPDATE SKIP LOCKED
), heard AS MATERIALIZED (
    -- Walks from the subscriptions to the events: a million events without a subscriber cost nothing.
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
