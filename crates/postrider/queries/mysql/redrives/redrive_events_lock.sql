-- Locks events, so that they are not pruned meanwhile. ? event seqs as JSON, in order.
SELECT e.seq
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (PRIMARY) ON e.seq = i.seq
FOR UPDATE
