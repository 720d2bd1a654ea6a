-- Releases deliveries that were not attempted. ? ids as JSON, ? token.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
SET d.attempts = d.attempts - 1, d.token = NULL, d.lock_owner = NULL, d.lock_time = NULL, d.lock_until = NULL
WHERE d.token = ?
