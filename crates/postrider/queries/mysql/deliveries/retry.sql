-- Makes failed deliveries due again. ? failures as JSON, ? token.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', after_ms BIGINT PATH '$.after_ms', error VARCHAR(1000) CHARACTER SET utf8mb4 PATH '$.error')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
SET d.due_at = UTC_TIMESTAMP(6) + INTERVAL i.after_ms * 1000 MICROSECOND, d.last_error = i.error,
    d.token = NULL, d.lock_owner = NULL, d.lock_time = NULL, d.lock_until = NULL
WHERE d.token = ?
