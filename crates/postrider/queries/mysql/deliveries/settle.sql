-- Removes what is done, where it has no key. ? ids as JSON, ? token. Whoever finds all of them removed need not be told which.
DELETE d
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.token = ? AND d.event_key IS NULL
