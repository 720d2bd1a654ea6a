-- Stores a consumer's results for many events. ? [[event id, result]] as JSON, ? consumer.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    event_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[0]', result MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$[1]')) r
STRAIGHT_JOIN postrider_inbox i FORCE INDEX (PRIMARY) ON i.consumer = ? AND i.event_id = r.event_id
SET i.result = r.result
