-- Counts an event that the inbox has stopped. ?1 consumer; ?2 event id.
INSERT INTO postrider_repeat (consumer, event_id, repeats, repeated_at)
VALUES (?1, ?2, 1, (SELECT now FROM postrider_clock))
ON CONFLICT (consumer, event_id) DO UPDATE SET repeats = repeats + 1, repeated_at = excluded.repeated_at
