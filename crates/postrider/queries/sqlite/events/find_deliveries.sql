-- ?1 event seqs as JSON.
SELECT d.event_seq, d.id, d.lane, d.target, d.shard, d.dead, d.held, d.token IS NOT NULL, d.attempts, d.due_at, d.lock_owner,
       d.lock_time, d.lock_until, d.last_error, d.skipped_at
FROM json_each(?1) i
CROSS JOIN postrider_delivery d ON d.event_seq = i.value
ORDER BY d.event_seq, d.lane, d.target
