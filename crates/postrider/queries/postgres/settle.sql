-- Removes what is done. $1 ids, $2 token.
DELETE FROM postrider_delivery d
WHERE d.id = ANY ($1) AND d.token = $2
  -- Out of order: an earlier one of the key is still there, and not among those settled with it.
  AND (d.event_key IS NULL OR NOT EXISTS (
      SELECT 1 FROM postrider_delivery p
      WHERE p.lane = d.lane AND p.event_key = d.event_key AND p.event_seq < d.event_seq
        AND NOT p.dead AND NOT (p.id = ANY ($1) AND p.token = $2)))
RETURNING d.id
