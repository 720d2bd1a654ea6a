-- Marks the events that have their deliveries now. ? [{seq, heard}] as JSON.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$.seq', heard BOOLEAN PATH '$.heard')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (PRIMARY) ON e.seq = i.seq
SET e.routing = CASE WHEN i.heard THEN 'ROUTED' ELSE 'UNHEARD' END
