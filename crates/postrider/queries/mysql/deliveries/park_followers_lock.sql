-- Locks the deliveries to park that are not leased. ? ids as JSON.
SELECT d.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.token IS NULL AND d.place <> 3
FOR UPDATE SKIP LOCKED
