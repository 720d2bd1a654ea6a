-- Parks deliveries that cannot move: those behind a delayed, failed or dead one; decision 3 gives the reason. ?1 lane, ?2
-- shards as a set of 64 bits, ?3 whether a dead delivery holds its key, ?4 window.
WITH due AS MATERIALIZED (
    SELECT id, event_key FROM postrider_delivery INDEXED BY postrider_delivery_due_keyed
    WHERE lane = ?1 AND event_key IS NOT NULL AND NOT dead AND NOT held
      AND due_at <= (SELECT now FROM postrider_clock)
      AND (lock_until IS NULL OR lock_until <= (SELECT now FROM postrider_clock))
      AND (?2 >> shard) & 1
    ORDER BY due_at, id
    LIMIT ?4 + 0
), in_front AS MATERIALIZED (
    SELECT h.event_key, h.event_seq, h.due_at, h.dead
    FROM (SELECT DISTINCT event_key FROM due) w
    CROSS JOIN postrider_delivery h ON h.id = (
        SELECT f.id FROM postrider_delivery f
        WHERE f.lane = ?1 AND f.event_key = w.event_key AND (NOT f.dead OR (?3 AND f.skipped_at IS NULL))
        ORDER BY f.event_seq, f.id LIMIT 1)
    WHERE h.token IS NULL AND (h.dead OR h.due_at > (SELECT now FROM postrider_clock))
)
UPDATE postrider_delivery AS d
SET due_at = max(d.due_at, f.due_at), held = f.dead
FROM due w JOIN in_front f ON f.event_key = w.event_key
WHERE d.id = w.id AND d.event_seq > f.event_seq AND d.token IS NULL
