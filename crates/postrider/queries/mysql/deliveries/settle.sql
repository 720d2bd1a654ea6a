-- Deletes settled deliveries that have no key. ? ids as JSON, ? token. If the count is complete, the caller need not know the
-- ids.
DELETE d
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.token = ? AND d.event_key IS NULL
