-- The first half of the last step of a consumer's transaction. ?1 consumer, ?2 event id, ?3 delivery, ?4 token, ?5 result.
-- Matches a row only if the token holds, the delivery is in the consumer's lane, and the inbox row of this transaction exists;
-- complete_delivery.sql follows then.
UPDATE postrider_inbox SET result = coalesce(?5, result)
WHERE consumer = ?1 AND event_id = ?2
  AND EXISTS (
      SELECT 1 FROM postrider_delivery d
      WHERE d.id = ?3 AND d.token = ?4 AND d.lane = ?1
        AND (d.event_key IS NULL OR NOT EXISTS (
            SELECT 1 FROM postrider_delivery p
            WHERE p.lane = d.lane AND p.event_key = d.event_key AND p.event_seq < d.event_seq AND NOT p.dead)))
RETURNING true
