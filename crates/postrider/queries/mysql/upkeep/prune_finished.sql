-- Which of the locked events have no delivery. ? seqs as JSON. A separate statement, so that it sees deliveries that were
-- committed before the lock was granted.
SELECT i.seq
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
WHERE NOT EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = i.seq)
