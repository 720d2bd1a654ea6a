-- Time until the first delivery of each lane is due, or its lease ends. $1 lanes. In ms; NULL if nothing waits.
SELECT ceil(extract(epoch FROM min(greatest(first.due_at, first.lock_until)) - now()) * 1000)::bigint
FROM unnest($1::text[]) WITH ORDINALITY AS asked (lane, place)
LEFT JOIN LATERAL (
    -- The first few rows are enough: at worst they are leased, and are read again when they are done.
    (SELECT due_at, lock_until FROM postrider_delivery
     WHERE lane = asked.lane AND place = 0
     ORDER BY due_at LIMIT 1000)
    UNION ALL
    (SELECT due_at, lock_until FROM postrider_delivery
     WHERE lane = asked.lane AND place = 1
     ORDER BY due_at LIMIT 1000)
) first ON true
GROUP BY asked.place
ORDER BY asked.place
