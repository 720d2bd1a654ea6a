-- The last event's seq.
SELECT coalesce(max(seq), 0) FROM postrider_event
