-- The oldest of the first due deliveries of all lanes. In ms; NULL if nothing is due.
WITH RECURSIVE lane(name) AS (
    -- There are few lanes and many deliveries, so this walks from lane to lane by the index.
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
