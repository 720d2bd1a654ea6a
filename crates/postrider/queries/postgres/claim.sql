-- Leases the oldest due deliveries without a key. $1 lane, $2 shards (NULL: all), $3 limit, $4 token, $5 owner, $6 lease in ms.
UPDATE postrider_delivery d
-- (SELECT …): reckoned once, not for each row.
SET token = $4, lock_owner = $5, lock_time = now(), lock_until = (SELECT now() + $6 * interval '1 ms'), attempts = d.attempts + 1
FROM postrider_event e
-- ARRAY(…) runs the locked select once, before the update: joined, a nested loop could run it again and lock more
-- rows than the limit. The row's own address spares an index look-up; a row that moved meanwhile was changed by
-- somebody else and is left to the next claim.
WHERE d.ctid = ANY (ARRAY(
    SELECT c.ctid FROM postrider_delivery c
    WHERE c.lane = $1 AND c.place = 0
      AND c.due_at <= now() AND (c.lock_until IS NULL OR c.lock_until <= now())
      AND ($2::smallint[] IS NULL OR c.shard = ANY ($2))
      -- The commit is not waited for: a server that crashes may forget the last leases, as if they had run out.
      AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
    ORDER BY c.lane, c.place, c.due_at, c.id
    LIMIT $3
    FOR UPDATE SKIP LOCKED))
  -- Not a plain =, which would offer the way from all events to their deliveries: on an empty table that looks as good.
  AND e.seq = ANY (ARRAY[d.event_seq])
-- What most events fill, and whether there is more, which claim_more.sql reads: each column costs, also where it is empty.
RETURNING d.id, d.attempts, e.seq, e.event_id, e.topic, e.event_key, e.payload, e.trace_id, e.span_id,
    e.aggregate_type, e.aggregate_id, e.tenant_id, e.initiator, e.occurred_at,
    d.target <> '' OR e.payload_type <> 'application/json' OR e.payload_encoding IS NOT NULL OR e.parent_event_id IS NOT NULL
        OR e.store_id IS NOT NULL OR e.metadata IS NOT NULL OR e.expire_at IS NOT NULL OR e.deliver_at IS NOT NULL
        OR e.max_attempts IS NOT NULL OR e.exchange IS NOT NULL OR e.routing_key IS NOT NULL
