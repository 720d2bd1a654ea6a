-- Takes those of the deliveries in front that really stand in the way: dead or not due. ? ids as JSON. Locked, so that a
-- redrive of one comes wholly before its followers are parked or frees them after it.
SELECT d.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.token IS NULL AND (d.place = 3 OR d.due_at > UTC_TIMESTAMP(6))
FOR UPDATE SKIP LOCKED
