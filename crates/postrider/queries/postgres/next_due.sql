-- How long until the first delivery of a lane is due, or its lease runs out. $1 lane. In ms; NULL: nothing waits.
SELECT (extract(epoch FROM min(greatest(due_at, lock_until)) - now()) * 1000)::bigint
FROM (
    -- The first few are enough: those in front are leased at worst, and looked at again when they are done.
    (SELECT due_at, lock_until FROM postrider_delivery
     WHERE lane = $1 AND place = 0
     ORDER BY due_at LIMIT 1000)
    UNION ALL
    (SELECT due_at, lock_until FROM postrider_delivery
     WHERE lane = $1 AND place = 1
     ORDER BY due_at LIMIT 1000)
) first
