-- Locks the deliveries in front that are dead or not due. ? ids as JSON. Locked, so that a redrive of one either completes
-- before its followers are parked, or releases them afterwards.
SELECT d.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.token IS NULL AND (d.place = 3 OR d.due_at > UTC_TIMESTAMP(6))
FOR UPDATE SKIP LOCKED
