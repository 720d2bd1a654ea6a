-- Marks events that were unheard until now, because lists show them so. ? seqs as JSON.
INSERT INTO postrider_mark (event_seq)
SELECT s.event_seq FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_status s FORCE INDEX (PRIMARY) ON s.event_seq = i.seq
