-- Removes deliveries whose events somebody has deleted by hand: claims pass over them, and enough of them in front would keep
-- the rest of the lane from being claimed. $1 lane, $2 place. The first few are enough: more come next time.
DELETE FROM postrider_delivery
WHERE ctid = ANY (ARRAY(
    SELECT first.address
    FROM (
        SELECT ctid AS address, event_seq FROM postrider_delivery
        WHERE lane = $1 AND place = $2 AND due_at <= now()
        ORDER BY lane, place, due_at, id LIMIT 100
    ) first
    WHERE NOT EXISTS (SELECT 1 FROM postrider_event e WHERE e.seq = first.event_seq)))
