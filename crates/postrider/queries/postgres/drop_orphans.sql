-- Removes due deliveries whose events somebody has deleted by hand: a claim passes over them for ever, and enough of them in
-- front would keep the rest of the lane from it. $1 lane, $2 place, $3 limit.
DELETE FROM postrider_delivery d
WHERE d.ctid = ANY (ARRAY(
    SELECT c.ctid FROM postrider_delivery c
    WHERE c.lane = $1 AND c.place = $2 AND c.due_at <= now() AND (c.lock_until IS NULL OR c.lock_until <= now())
    ORDER BY c.lane, c.place, c.due_at, c.id
    LIMIT $3
    FOR UPDATE SKIP LOCKED))
  AND NOT EXISTS (SELECT 1 FROM postrider_event e WHERE e.seq = d.event_seq)
