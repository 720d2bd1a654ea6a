-- The first due delivery of each lane, then the oldest of those. In ms; NULL: nothing is due.
WITH RECURSIVE lane(name) AS (
    -- Lanes are few and deliveries many: from one lane to the next by the index.
    (SELECT lane FROM postrider_delivery ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT d.lane FROM postrider_delivery d WHERE d.lane > lane.name ORDER BY d.lane LIMIT 1)
    FROM lane WHERE lane.name IS NOT NULL
)
SELECT (extract(epoch FROM now() - min(first.due_at)) * 1000)::bigint
FROM lane
CROSS JOIN LATERAL (
    (SELECT due_at FROM postrider_delivery
     WHERE lane = lane.name AND place = 0 AND due_at <= now()
     ORDER BY due_at LIMIT 1)
    UNION ALL
    (SELECT due_at FROM postrider_delivery
     WHERE lane = lane.name AND place = 1 AND due_at <= now()
     ORDER BY due_at LIMIT 1)
) first
