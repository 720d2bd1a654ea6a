-- Makes a delivery due now, or makes it. $1 event seq, $2 lane, $3 target, $4 shard. No row: somebody works on it.
INSERT INTO postrider_delivery AS d (event_seq, lane, target, shard, place, event_key, due_at)
SELECT e.seq, $2, $3, $4, CASE WHEN e.event_key IS NULL THEN 0 ELSE 1 END, e.event_key, now()
FROM postrider_event e WHERE e.seq = $1
ON CONFLICT (event_seq, lane, target) DO UPDATE
    SET due_at = now(), attempts = 0, place = excluded.place,
        token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
    WHERE d.token IS NULL OR d.lock_until <= now()
-- A row that no transaction has updated has no xmax: it was made.
RETURNING d.xmax = 0
