-- Makes a delivery due now, or makes it. ?1 event seq, ?2 lane, ?3 target, ?4 shard. No row: somebody works on it.
INSERT INTO postrider_delivery AS d (event_seq, lane, target, shard, event_key, due_at)
SELECT e.seq, ?2, ?3, ?4, e.event_key, c.now
FROM postrider_event e, postrider_clock c WHERE e.seq = ?1
ON CONFLICT (event_seq, lane, target) DO UPDATE
    SET due_at = excluded.due_at, attempts = 0, dead = false, held = false,
        token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
    WHERE d.token IS NULL OR d.lock_until <= excluded.due_at
RETURNING id
