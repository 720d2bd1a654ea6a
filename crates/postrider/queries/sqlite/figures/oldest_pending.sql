-- The oldest of the first due deliveries of all lanes. In ms; NULL if nothing is due. There are few lanes and many deliveries,
-- so this walks from lane to lane by the two indexes of claims.
WITH RECURSIVE plain (lane) AS (
    SELECT min(lane) FROM postrider_delivery INDEXED BY postrider_delivery_due WHERE event_key IS NULL AND NOT dead AND NOT held
    UNION ALL
    SELECT (SELECT min(d.lane) FROM postrider_delivery d INDEXED BY postrider_delivery_due
            WHERE d.event_key IS NULL AND NOT d.dead AND NOT d.held AND d.lane > plain.lane)
    FROM plain WHERE plain.lane IS NOT NULL
), keyed (lane) AS (
    SELECT min(lane) FROM postrider_delivery INDEXED BY postrider_delivery_due_keyed WHERE event_key IS NOT NULL AND NOT dead AND NOT held
    UNION ALL
    SELECT (SELECT min(d.lane) FROM postrider_delivery d INDEXED BY postrider_delivery_due_keyed
            WHERE d.event_key IS NOT NULL AND NOT d.dead AND NOT d.held AND d.lane > keyed.lane)
    FROM keyed WHERE keyed.lane IS NOT NULL
), first (due_at) AS (
    SELECT (SELECT min(d.due_at) FROM postrider_delivery d INDEXED BY postrider_delivery_due
            WHERE d.lane = plain.lane AND d.event_key IS NULL AND NOT d.dead AND NOT d.held)
    FROM plain
    UNION ALL
    SELECT (SELECT min(d.due_at) FROM postrider_delivery d INDEXED BY postrider_delivery_due_keyed
            WHERE d.lane = keyed.lane AND d.event_key IS NOT NULL AND NOT d.dead AND NOT d.held)
    FROM keyed
)
SELECT c.now - min(f.due_at) FROM postrider_clock c, first f WHERE f.due_at <= c.now
