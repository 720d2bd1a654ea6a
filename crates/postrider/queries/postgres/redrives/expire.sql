-- Stores that a person has expired an event. $1 event seq.
INSERT INTO postrider_status (event_seq, expired_at) VALUES ($1, now())
ON CONFLICT (event_seq) DO UPDATE SET expired_at = excluded.expired_at
