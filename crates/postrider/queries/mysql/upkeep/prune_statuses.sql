-- ? seqs as JSON.
DELETE s
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_status s FORCE INDEX (PRIMARY) ON s.event_seq = i.seq
