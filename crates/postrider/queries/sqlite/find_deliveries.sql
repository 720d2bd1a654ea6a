-- ?1 event seq.
SELECT event_seq, id, lane, target, shard, dead, held, token IS NOT NULL, attempts, due_at, lock_owner, lock_time, lock_until, last_error
FROM postrider_delivery WHERE event_seq = ?1
ORDER BY lane, target
