-- ? event seqs as JSON.
SELECT c.event_seq, c.consumer, c.attempt, c.success, c.will_retry, c.consumed_at, c.error, c.code, c.created_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_consumption c FORCE INDEX (PRIMARY) ON c.event_seq = i.seq
ORDER BY c.event_seq, c.consumer, c.attempt
