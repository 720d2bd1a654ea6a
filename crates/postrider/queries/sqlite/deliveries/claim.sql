-- Leases the oldest due deliveries without a key; claim_fetch.sql reads them. ?1 lane, ?2 shards as a set of 64 bits,
-- ?3 limit, ?4 token, ?5 owner, ?6 lease in ms.
UPDATE postrider_delivery
SET token = ?4, lock_owner = ?5, lock_time = (SELECT now FROM postrider_clock),
    lock_until = (SELECT now FROM postrider_clock) + ?6, attempts = attempts + 1
WHERE id IN (
    -- The index by name: a claim that cannot use it fails, instead of becoming slow on a large table.
    SELECT id FROM postrider_delivery INDEXED BY postrider_delivery_due
    WHERE lane = ?1 AND event_key IS NULL AND NOT dead AND NOT held
      AND due_at <= (SELECT now FROM postrider_clock)
      AND (lock_until IS NULL OR lock_until <= (SELECT now FROM postrider_clock))
      AND (?2 >> shard) & 1
    ORDER BY due_at, id
    -- + 0, here and elsewhere: SQLite plans by the value of a bare parameter, and prepares the statement again each time it is
    -- bound.
    LIMIT ?3 + 0)
