-- ? event seqs as JSON.
SELECT d.event_seq, d.id, d.lane, d.target, d.shard, d.place = 3, d.place = 2, d.token IS NOT NULL, d.attempts, d.due_at, d.lock_owner,
       d.lock_time, d.lock_until, d.last_error, d.skipped_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (postrider_delivery_event) ON d.event_seq = i.seq
ORDER BY d.event_seq, d.lane, d.target
