-- Counts an event that the inbox has stopped. ? consumer; ? event id.
INSERT INTO postrider_repeat (consumer, event_id, repeats, repeated_at) VALUES (?, ?, 1, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE repeats = repeats + 1, repeated_at = UTC_TIMESTAMP(6)
