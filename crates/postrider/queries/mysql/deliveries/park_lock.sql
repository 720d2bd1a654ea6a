-- Locks the deliveries in front that are dead or not due. ? ids as JSON. Locked, so that a redrive of one either completes
-- before its followers are parked, or releases them afterwards.
SELECT d.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.token IS NULL AND (CASE d.place WHEN 3 THEN d.skipped_at IS NULL ELSE d.due_at > UTC_TIMESTAMP(6) END)
FOR UPDATE SKIP LOCKED
