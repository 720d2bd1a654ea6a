-- Leases runs of known keys that claim_keyed.sql has returned: the same steps, starting with the keys. $1 lane, $2 keys, $3
-- limit, $4 token, $5 owner, $6 lease in ms, $7 whether a dead delivery holds its key. Returns the columns of claim.sql except
-- the last two.
WITH run AS MATERIALIZED (
    SELECT r.id, k.event_key, r.event_seq, r.address, r.free
    FROM unnest($2::varchar[]) AS k (event_key)
    CROSS JOIN LATERAL (
        SELECT place <> 3 AND due_at <= now() AND (lock_until IS NULL OR lock_until <= now()) AS free
        FROM postrider_delivery
        WHERE lane = $1 AND event_key = k.event_key AND (place <> 3 OR ($7 AND skipped_at IS NULL))
        ORDER BY event_seq LIMIT 1
    ) h
    CROSS JOIN LATERAL (
        SELECT id, event_seq, ctid AS address,
               place <> 3 AND due_at <= now() AND (lock_until IS NULL OR lock_until <= now()) AS free
        FROM postrider_delivery
        WHERE lane = $1 AND event_key = k.event_key AND (place <> 3 OR ($7 AND skipped_at IS NULL))
        ORDER BY event_seq
        LIMIT greatest($3 / 8, 1)
    ) r
    -- As in claim.sql.
    WHERE h.free AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
    LIMIT $3
), locked AS MATERIALIZED (
    SELECT d.id, d.event_key, d.event_seq, d.ctid AS address
    FROM postrider_delivery d
    WHERE d.ctid = ANY (ARRAY(SELECT address FROM run WHERE free))
      AND d.place <> 3 AND (d.due_at <= now()) IS TRUE AND (d.lock_until IS NULL OR d.lock_until <= now())
    FOR UPDATE OF d SKIP LOCKED
), missed AS MATERIALIZED (
    SELECT event_key, min(event_seq) AS event_seq FROM run
    WHERE id NOT IN (SELECT id FROM locked)
    GROUP BY event_key
), whole AS MATERIALIZED (
    SELECT address FROM locked l
    WHERE NOT EXISTS (SELECT 1 FROM missed m WHERE m.event_key = l.event_key AND m.event_seq < l.event_seq)
), leased AS (
    UPDATE postrider_delivery d
    SET token = $4, lock_owner = $5, lock_time = now(), lock_until = (SELECT now() + $6 * interval '1 ms'),
        attempts = d.attempts + 1, place = 1
    WHERE d.ctid = ANY (ARRAY(SELECT address FROM whole))
    RETURNING d.event_seq, d.id, d.attempts, d.target, d.ctid
)
SELECT array_agg(event_seq), array_agg(id), array_agg(attempts), array_agg(ctid), CASE WHEN max(target) <> '' THEN array_agg(target) END
FROM leased
