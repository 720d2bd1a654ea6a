-- Locks the rows of attempt 0, so that no report is appended meanwhile. ? event seqs as JSON, in order.
SELECT c.attempt
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_consumption c FORCE INDEX (PRIMARY) ON c.event_seq = i.seq AND c.attempt = 0
FOR UPDATE
