-- Locks the free deliveries of the runs. ? ids as JSON. Checks again what a claim that committed meanwhile may have changed.
SELECT d.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.place <> 3 AND d.due_at <= UTC_TIMESTAMP(6) AND (d.lock_until IS NULL OR d.lock_until <= UTC_TIMESTAMP(6))
FOR UPDATE SKIP LOCKED
