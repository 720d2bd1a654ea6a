-- Leases the oldest due deliveries without a key. $1 lane, $2 shards (NULL: all), $3 limit, $4 token, $5 owner, $6 lease in ms,
-- $7 and $8: only deliveries after this due time and number (NULL: from the oldest on). claim_fetch.sql reads the events
-- afterwards: they never change, and consecutive ones are read by one range scan. Returns one row whose columns are arrays:
-- reading one row per delivery takes as long as leasing it.
WITH leased AS (
    UPDATE postrider_delivery d
    -- (SELECT …) is computed once, not for each row.
    SET token = $4, lock_owner = $5, lock_time = now(), lock_until = (SELECT now() + $6 * interval '1 ms'), attempts = d.attempts + 1
    -- ARRAY(…) runs the locking select once, before the update: in a join, a nested loop could run it again and lock more rows
    -- than the limit. The row address saves an index look-up; a row that has moved was changed by another transaction and is
    -- left to the next claim.
    WHERE d.ctid = ANY (ARRAY(
        SELECT c.ctid FROM postrider_delivery c
        WHERE c.lane = $1 AND c.place = 0
          AND c.due_at <= now() AND (c.lock_until IS NULL OR c.lock_until <= now())
          AND (c.due_at, c.id) > (coalesce($7, timestamptz '-infinity'), $8)
          AND ($2::smallint[] IS NULL OR c.shard = ANY ($2))
          -- The commit does not wait for the disk: a server that crashes may lose the last leases, as if they had ended.
          AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
        ORDER BY c.lane, c.place, c.due_at, c.id
        LIMIT $3
        FOR UPDATE SKIP LOCKED))
    RETURNING d.event_seq, d.id, d.attempts, d.target, d.ctid, d.due_at
)
SELECT array_agg(event_seq), array_agg(id), array_agg(attempts), array_agg(ctid), CASE WHEN max(target) <> '' THEN array_agg(target) END,
    -- The last position of this claim.
    max(due_at), (SELECT max(id) FROM leased WHERE due_at = (SELECT max(due_at) FROM leased))
FROM leased
