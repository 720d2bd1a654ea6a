-- Removes marks before anything is read. ? ids as JSON.
DELETE m
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_mark m FORCE INDEX (PRIMARY) ON m.id = i.id
