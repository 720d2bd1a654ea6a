-- Leases runs of keys; docs/decisions/0003-order-by-key.md describes the steps and why they are safe. $1 lane, $2 shards (NULL:
-- all), $3 limit, $4 token, $5 owner, $6 lease in ms, $7 whether a dead delivery holds its key, $8 window, $9 the lane's number
-- for advisory locks, $10 number of shards to read, $11 minimum number of leased deliveries to return other keys.
WITH freed AS (
    -- The policy was changed to skip: deliveries held behind dead ones can be claimed from the next claim on.
    UPDATE postrider_delivery SET place = 1 WHERE NOT $7 AND lane = $1 AND place = 2
), due AS MATERIALIZED (
    SELECT id, event_seq, event_key, shard, due_at FROM postrider_delivery
    WHERE lane = $1 AND place = 1
      AND due_at <= now() AND (lock_until IS NULL OR lock_until <= now())
      AND ($2::smallint[] IS NULL OR shard = ANY ($2))
      -- As in claim.sql.
      AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
    ORDER BY lane, place, due_at, id
    LIMIT $8
), due_shard AS MATERIALIZED (
    -- The shards with the oldest deliveries first: deliveries in shards that others have just claimed are mostly behind leased
    -- ones. Sometimes a random shard, or shards with a slow key in front would be the only ones ever read.
    SELECT shard
    FROM (SELECT shard, row_number() OVER (ORDER BY min(due_at), min(id)) AS age FROM due GROUP BY shard) s
    ORDER BY CASE WHEN random() < 0.0625 THEN 0 ELSE age END
), mine AS MATERIALIZED (
    -- Spreads claimers over shards. The lock is held until this statement's transaction ends, and never waited for.
    SELECT shard FROM due_shard WHERE pg_try_advisory_xact_lock($9, shard) LIMIT $10
), wanted AS MATERIALIZED (
    -- IS TRUE makes the planner hash the shards instead of looping over them for each row.
    SELECT event_key, count(*) AS rows FROM due WHERE (shard IN (SELECT shard FROM mine)) IS TRUE
    GROUP BY event_key ORDER BY min(due_at), min(id)
), run AS MATERIALIZED (
    -- The first few deliveries of each key, or only the first one if it is not free.
    SELECT r.id, w.event_key, r.event_seq, r.address, r.free, NOT h.free AS blocked
    FROM wanted w
    CROSS JOIN LATERAL (
        SELECT place <> 3 AND due_at <= now() AND (lock_until IS NULL OR lock_until <= now()) AS free
        FROM postrider_delivery
        WHERE lane = $1 AND event_key = w.event_key AND (place <> 3 OR ($7 AND skipped_at IS NULL))
        ORDER BY event_seq LIMIT 1
    ) h
    CROSS JOIN LATERAL (
        SELECT id, event_seq, ctid AS address,
               place <> 3 AND due_at <= now() AND (lock_until IS NULL OR lock_until <= now()) AS free
        FROM postrider_delivery
        WHERE lane = $1 AND event_key = w.event_key AND (place <> 3 OR ($7 AND skipped_at IS NULL))
        ORDER BY event_seq
        -- Twice the number in the window, and at least a share of the limit: long runs of few keys cost less than short runs of
        -- many.
        LIMIT CASE WHEN h.free THEN greatest(w.rows * 2, $3 / 8) ELSE 1 END
    ) r
    LIMIT $3
), locked AS MATERIALIZED (
    -- Checks again what a claim that committed since this snapshot may have changed. IS TRUE, here and below, makes the planner
    -- use the address and not an index of due deliveries.
    SELECT d.id, d.event_key, d.event_seq, d.ctid AS address
    FROM postrider_delivery d
    WHERE d.ctid = ANY (ARRAY(SELECT address FROM run WHERE free))
      AND d.place <> 3 AND (d.due_at <= now()) IS TRUE AND (d.lock_until IS NULL OR d.lock_until <= now())
    FOR UPDATE OF d SKIP LOCKED
), missed AS MATERIALIZED (
    SELECT event_key, min(event_seq) AS event_seq FROM run
    WHERE NOT blocked AND id NOT IN (SELECT id FROM locked)
    GROUP BY event_key
), whole AS MATERIALIZED (
    -- Of each key only the run before the first delivery that was not free or could not be locked.
    SELECT address FROM locked l
    WHERE NOT EXISTS (SELECT 1 FROM missed m WHERE m.event_key = l.event_key AND m.event_seq < l.event_seq)
), in_front AS MATERIALIZED (
    -- Dead or not due, and not let go since this snapshot. Locked, so that a redrive of it either completes before this statement, or releases the followers
    -- afterwards.
    SELECT d.event_key, d.event_seq, d.due_at, d.place
    FROM run r JOIN postrider_delivery d ON d.ctid = r.address
    WHERE r.blocked AND (CASE d.place WHEN 3 THEN d.skipped_at IS NULL ELSE d.due_at > now() END) IS TRUE AND d.token IS NULL
    FOR UPDATE OF d SKIP LOCKED
), parked AS (
    UPDATE postrider_delivery d
    SET due_at = greatest(d.due_at, f.due_at), place = CASE f.place WHEN 3 THEN 2 ELSE 1 END
    FROM (
        SELECT b.address, i.due_at, i.place FROM in_front i
        -- OFFSET 0 fixes the join order: from each delivery in front to those behind it.
        CROSS JOIN LATERAL (
            SELECT ctid AS address FROM postrider_delivery
            WHERE lane = $1 AND event_key = i.event_key AND event_seq > i.event_seq AND (id IN (SELECT id FROM due)) IS TRUE
            OFFSET 0
        ) b
    ) f
    WHERE d.ctid = f.address AND d.token IS NULL AND d.place <> 3
    RETURNING 1
), leased AS (
    UPDATE postrider_delivery d
    SET token = $4, lock_owner = $5, lock_time = now(), lock_until = (SELECT now() + $6 * interval '1 ms'),
        attempts = d.attempts + 1, place = 1
    WHERE d.ctid = ANY (ARRAY(SELECT address FROM whole))
    RETURNING d.event_seq, d.id, d.attempts, d.target, d.ctid
)
SELECT array_agg(event_seq), array_agg(id), array_agg(attempts), array_agg(ctid), CASE WHEN max(target) <> '' THEN array_agg(target) END,
    -- NULL, except in two cases: nothing was leased but something was parked; or so much was leased that there is a backlog,
    -- and the other keys of the window are returned, the oldest first.
    CASE WHEN count(*) >= $11 OR (count(*) = 0 AND EXISTS (SELECT 1 FROM parked)) THEN ARRAY(
        SELECT event_key FROM due WHERE (event_key IN (SELECT event_key FROM run)) IS NOT TRUE
        GROUP BY event_key ORDER BY min(due_at), min(id)) END
FROM leased
