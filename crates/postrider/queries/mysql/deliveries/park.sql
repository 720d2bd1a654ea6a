-- Parks deliveries that cannot move: those behind a delayed, failed or dead one; decision 3 gives the reason. ? [{id, front}]
-- as JSON, all of them locked.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$.id', front BIGINT PATH '$.front')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
STRAIGHT_JOIN postrider_delivery f FORCE INDEX (PRIMARY) ON f.id = i.front
SET d.due_at = greatest(d.due_at, f.due_at), d.place = CASE f.place WHEN 3 THEN 2 ELSE 1 END
