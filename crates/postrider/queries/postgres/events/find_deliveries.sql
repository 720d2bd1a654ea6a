-- $1 event seqs.
SELECT event_seq, id, lane, target, shard, place = 3, place = 2, token IS NOT NULL, attempts, due_at, lock_owner, lock_time, lock_until, last_error, skipped_at
FROM postrider_delivery WHERE event_seq = ANY ($1)
ORDER BY event_seq, lane, target
