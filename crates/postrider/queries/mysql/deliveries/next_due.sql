-- Time until the first delivery of a lane is due, or its lease ends. ? lane, twice. In ms; NULL if nothing waits.
SELECT CAST(CEIL(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), min(greatest(first.due_at, coalesce(first.lock_until, first.due_at)))) / 1000) AS SIGNED)
FROM (
    -- The first few rows are enough: at worst they are leased, and are read again when they are done.
    (SELECT due_at, lock_until FROM postrider_delivery FORCE INDEX (postrider_delivery_due)
     WHERE lane = ? AND place = 0
     ORDER BY due_at LIMIT 1000)
    UNION ALL
    (SELECT due_at, lock_until FROM postrider_delivery FORCE INDEX (postrider_delivery_due)
     WHERE lane = ? AND place = 1
     ORDER BY due_at LIMIT 1000)
) first
