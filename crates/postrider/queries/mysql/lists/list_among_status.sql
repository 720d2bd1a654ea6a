-- Which events have this stored status. ? event seqs as JSON, ? status.
SELECT s.event_seq
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_status s FORCE INDEX (PRIMARY) ON s.event_seq = i.seq AND s.status = ?
