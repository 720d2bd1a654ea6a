-- Deletes settled deliveries. ? ids as JSON, all of them locked by held_by.sql.
DELETE d
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
