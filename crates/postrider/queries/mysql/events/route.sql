-- Marks events as routed or unheard. ? [{seq, subscribed}] as JSON.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$.seq', subscribed BOOLEAN PATH '$.subscribed')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (PRIMARY) ON e.seq = i.seq
-- Plain SQL can write an empty topic, which would read as new again.
SET e.waits_for = CASE WHEN NOT i.subscribed THEN coalesce(nullif(e.topic, ''), ' ') END
