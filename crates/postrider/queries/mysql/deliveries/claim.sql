-- Leases the oldest due deliveries without a key; claim_fetch.sql reads them. ? lane, ? shards as a set of 64 bits, ? limit,
-- ? token, ? owner, ? lease in ms.
UPDATE (
    -- A derived table is computed once: the rows that were locked are the rows that are leased. SKIP LOCKED never waits.
    SELECT c.id FROM postrider_delivery c FORCE INDEX (postrider_delivery_due)
    WHERE c.lane = ? AND c.place = 0
      AND c.due_at <= UTC_TIMESTAMP(6) AND (c.lock_until IS NULL OR c.lock_until <= UTC_TIMESTAMP(6))
      AND (? >> c.shard) & 1
    -- Not the whole index: MariaDB would sort then, and lock every row that it sorts.
    ORDER BY c.due_at, c.id
    LIMIT ?
    FOR UPDATE SKIP LOCKED
) free
-- This join order and this index, here and in all statements that change rows: a scan of a small table would wait for locks of
-- other transactions.
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (PRIMARY) ON d.id = free.id
SET d.token = ?, d.lock_owner = ?, d.lock_time = UTC_TIMESTAMP(6),
    d.lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND, d.attempts = d.attempts + 1
