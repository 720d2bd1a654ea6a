-- Time until the first delivery of a lane is due, or its lease ends. ?1 lane, twice. In ms; NULL if nothing waits.
SELECT min(max(due_at, coalesce(lock_until, due_at))) - (SELECT now FROM postrider_clock)
FROM (
    -- The first few rows are enough: at worst they are leased, and are read again when they are done.
    SELECT * FROM (
        SELECT due_at, lock_until FROM postrider_delivery INDEXED BY postrider_delivery_due
        WHERE lane = ?1 AND event_key IS NULL AND NOT dead AND NOT held
        ORDER BY due_at LIMIT 1000)
    UNION ALL
    SELECT * FROM (
        SELECT due_at, lock_until FROM postrider_delivery INDEXED BY postrider_delivery_due_keyed
        WHERE lane = ?2 AND event_key IS NOT NULL AND NOT dead AND NOT held
        ORDER BY due_at LIMIT 1000)
)
