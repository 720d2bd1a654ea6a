-- The first half of the last step of a consumer's transaction. ? result, ? consumer, ? event id, ? delivery, ? token, ? consumer.
-- Matches a row only if the token holds, the delivery is in the consumer's lane, and the inbox row of this transaction
-- exists; complete_delivery.sql follows then.
UPDATE postrider_inbox SET result = coalesce(?, result)
WHERE consumer = ? AND event_id = ?
  AND EXISTS (
      SELECT 1 FROM postrider_delivery d
      WHERE d.id = ? AND d.token = ? AND d.lane = ?
        AND (d.event_key IS NULL OR NOT EXISTS (
            SELECT 1 FROM postrider_delivery p
            WHERE p.event_key = d.event_key AND p.lane = d.lane AND p.event_seq < d.event_seq AND p.place <> 3)))
