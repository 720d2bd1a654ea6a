-- Marks deliveries as dead. ? burials as JSON, ? token.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', tried BOOLEAN PATH '$.tried', error VARCHAR(1000) CHARACTER SET utf8mb4 PATH '$.error')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
SET d.place = 3, d.skipped_at = NULL, d.last_error = i.error, d.attempts = CASE WHEN i.tried THEN d.attempts ELSE d.attempts - 1 END,
    d.token = NULL, d.lock_owner = NULL, d.lock_time = NULL, d.lock_until = NULL
WHERE d.token = ?
