-- Extends leases. ? ids as JSON, ? lease in ms, ? token.
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
SET d.lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE d.token = ?
