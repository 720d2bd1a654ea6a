-- Leases runs of keys; docs/decisions/0003-order-by-key.md describes the steps, and claim_keyed_fetch.sql reads the rows. There
-- is one writer, so no other claim can hold a part of a run. ?1 lane, ?2 shards as a set of 64 bits, ?3 limit, ?4 token, ?5
-- owner, ?6 lease in ms, ?7 whether a dead delivery holds its key, ?8 window.
UPDATE postrider_delivery
SET token = ?4, lock_owner = ?5, lock_time = (SELECT now FROM postrider_clock),
    lock_until = (SELECT now FROM postrider_clock) + ?6, attempts = attempts + 1
WHERE id IN (
    WITH RECURSIVE due AS MATERIALIZED (
        SELECT id, event_key FROM postrider_delivery INDEXED BY postrider_delivery_due_keyed
        WHERE lane = ?1 AND event_key IS NOT NULL AND NOT dead AND NOT held
          AND due_at <= (SELECT now FROM postrider_clock)
          AND (lock_until IS NULL OR lock_until <= (SELECT now FROM postrider_clock))
          AND (?2 >> shard) & 1
        ORDER BY due_at, id
        LIMIT ?8 + 0
    ), run (id, event_key, event_seq) AS (
        -- The first delivery of each key, if it can be claimed.
        SELECT d.id, d.event_key, d.event_seq
        FROM (SELECT DISTINCT event_key FROM due) w
        CROSS JOIN postrider_delivery d ON d.id = (
            SELECT h.id FROM postrider_delivery h
            WHERE h.lane = ?1 AND h.event_key = w.event_key AND (NOT h.dead OR (?7 AND h.skipped_at IS NULL))
            ORDER BY h.event_seq, h.id LIMIT 1)
        WHERE NOT d.dead AND d.due_at <= (SELECT now FROM postrider_clock)
          AND (d.lock_until IS NULL OR d.lock_until <= (SELECT now FROM postrider_clock))
        UNION ALL
        -- Then the one after it, and so on. The first deliveries of all keys come first, then the second ones: no key starves
        -- another.
        SELECT d.id, d.event_key, d.event_seq
        FROM run r
        CROSS JOIN postrider_delivery d ON d.id = (
            SELECT n.id FROM postrider_delivery n
            WHERE n.lane = ?1 AND n.event_key = r.event_key AND (n.event_seq, n.id) > (r.event_seq, r.id) AND (NOT n.dead OR (?7 AND n.skipped_at IS NULL))
            ORDER BY n.event_seq, n.id LIMIT 1)
        WHERE NOT d.dead AND d.due_at <= (SELECT now FROM postrider_clock)
          AND (d.lock_until IS NULL OR d.lock_until <= (SELECT now FROM postrider_clock))
        LIMIT ?3 + 0
    )
    SELECT id FROM run)
-- clear_held.sql clears `held`: in the SET list above it would make every claim rewrite three indexes.
RETURNING id, held
