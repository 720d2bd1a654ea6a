-- Events that have no deliveries yet: from plain INSERT, or unheard until now. ?1 limit of each kind; the caller sorts them.
SELECT * FROM (
    SELECT seq, event_id, event_key FROM postrider_event INDEXED BY postrider_event_waits
    WHERE waits_for = ''
    ORDER BY seq LIMIT ?1 + 0)
UNION ALL
-- Walks from the subscriptions to the events: a million events without a subscriber cost nothing.
SELECT * FROM (
    SELECT e.seq, e.event_id, e.event_key
    FROM (SELECT DISTINCT topic FROM postrider_subscription WHERE topic <> '*' AND enabled AND NOT removed) s
    CROSS JOIN postrider_event e INDEXED BY postrider_event_waits ON e.waits_for = s.topic
    LIMIT ?1 + 0)
UNION ALL
SELECT * FROM (
    SELECT seq, event_id, event_key FROM postrider_event INDEXED BY postrider_event_waits
    WHERE waits_for > ''
      AND EXISTS (SELECT 1 FROM postrider_subscription WHERE topic = '*' AND enabled AND NOT removed)
    LIMIT ?1 + 0)
