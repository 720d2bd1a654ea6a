-- Locks the deliveries that the caller holds. ? ids as JSON, ? token. The lock keeps them unchanged for the statements that
-- follow.
SELECT d.event_seq, d.id, d.lane, d.event_key
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.token = ?
FOR UPDATE
