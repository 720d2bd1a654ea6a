-- Locks events. ? seqs as JSON. A redrive locks its event too, so it runs entirely before or after.
SELECT e.seq
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_event e FORCE INDEX (PRIMARY) ON e.seq = i.seq
FOR UPDATE SKIP LOCKED
