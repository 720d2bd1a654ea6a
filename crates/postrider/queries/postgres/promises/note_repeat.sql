-- Counts an event that the inbox has stopped. $1 consumer; $2 event id.
INSERT INTO postrider_repeat AS r (consumer, event_id, repeats, repeated_at) VALUES ($1, $2, 1, now())
ON CONFLICT (consumer, event_id) DO UPDATE SET repeats = r.repeats + 1, repeated_at = excluded.repeated_at
