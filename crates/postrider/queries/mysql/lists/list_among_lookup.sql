-- Which events have a hash. ? event seqs as JSON, ? hash.
SELECT l.event_seq
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_lookup l FORCE INDEX (PRIMARY) ON l.event_seq = i.seq AND l.hash = ?
