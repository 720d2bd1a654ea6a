-- Which of these deliveries are the caller's. ? ids as JSON, ? token. Locked: what follows finds them as they are here.
SELECT d.event_seq, d.id, d.lane, d.event_key
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = i.id
WHERE d.token = ?
FOR UPDATE
