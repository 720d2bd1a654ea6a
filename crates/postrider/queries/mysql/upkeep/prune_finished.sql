-- Which of the locked events have no delivery. ? seqs as JSON. A statement of its own, so that it sees deliveries that were
-- committed before the lock was had.
SELECT i.seq
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
WHERE NOT EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = i.seq)
