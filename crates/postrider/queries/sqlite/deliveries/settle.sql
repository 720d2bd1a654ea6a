-- Deletes settled deliveries. ?1 ids as JSON, ?2 token.
WITH mine AS MATERIALIZED (
    SELECT d.id, d.lane, d.event_key, d.event_seq
    FROM json_each(?1) i
    CROSS JOIN postrider_delivery d ON d.id = i.value
    WHERE d.token = ?2
), in_front AS MATERIALIZED (
    -- The first delivery of each key that is not settled in this call. Once per key: computed per delivery, a run of 500 would
    -- be read 500 times.
    SELECT k.lane, k.event_key, (
        SELECT p.event_seq FROM postrider_delivery p
        WHERE p.lane = k.lane AND p.event_key = k.event_key AND NOT p.dead AND p.id NOT IN (SELECT id FROM mine)
        ORDER BY p.event_seq LIMIT 1) AS event_seq
    FROM (SELECT DISTINCT lane, event_key FROM mine WHERE event_key IS NOT NULL) k
)
DELETE FROM postrider_delivery
WHERE id IN (SELECT id FROM mine WHERE event_key IS NULL
             UNION ALL
             -- Out of order: an earlier delivery of the key still exists.
             SELECT m.id FROM mine m JOIN in_front f ON f.lane = m.lane AND f.event_key = m.event_key
             WHERE f.event_seq IS NULL OR f.event_seq >= m.event_seq)
-- An attempt of the lane, not of its target: the broker has confirmed it, but no consumer has received it yet.
RETURNING event_seq, id, lane
