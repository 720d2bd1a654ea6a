-- Which events have a hash. $1 event seqs, $2 hash. One by one: on a small table the planner would read all rows of the hash,
-- and search the seqs for each.
SELECT l.event_seq
FROM unnest($1::bigint[]) AS i (seq)
CROSS JOIN LATERAL (SELECT event_seq FROM postrider_lookup WHERE hash = $2 AND event_seq = i.seq OFFSET 0) l
