-- Releases the deliveries that were parked behind a delivery, after that delivery changed. ?1 lane, ?2 key, ?3 its event's seq.
UPDATE postrider_delivery AS d
SET held = false,
    -- Only parked ones: not attempted, and not delayed by their own event.
    due_at = CASE WHEN d.attempts = 0 AND (e.deliver_at IS NULL OR e.deliver_at <= c.now) THEN min(d.due_at, c.now) ELSE d.due_at END
FROM postrider_clock c, postrider_event e
WHERE d.lane = ?1 AND d.event_key = ?2 AND d.event_seq > ?3 AND d.token IS NULL AND NOT d.dead
  AND (d.held OR d.due_at > c.now)
  AND e.seq = d.event_seq
