-- ? seqs as JSON.
DELETE c
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_consumption c FORCE INDEX (PRIMARY) ON c.event_seq = i.seq
