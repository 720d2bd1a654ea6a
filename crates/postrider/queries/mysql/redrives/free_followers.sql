-- Releases the deliveries that were parked behind a delivery, after that delivery changed. ? lane, ? key, ? its event's seq.
UPDATE postrider_delivery d FORCE INDEX (postrider_delivery_key)
-- Only parked ones: not attempted, and not delayed by their own event.
SET d.due_at = CASE WHEN d.attempts = 0 AND NOT EXISTS (
                   SELECT 1 FROM postrider_event e WHERE e.seq = d.event_seq AND e.deliver_at > UTC_TIMESTAMP(6))
               THEN least(d.due_at, UTC_TIMESTAMP(6)) ELSE d.due_at END,
    d.place = 1
WHERE d.lane = ? AND d.event_key = ? AND d.event_seq > ? AND d.token IS NULL AND d.place <> 3
  AND (d.place = 2 OR d.due_at > UTC_TIMESTAMP(6))
