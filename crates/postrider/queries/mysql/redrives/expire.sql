-- Stores that a person has expired an event. ? event seq.
INSERT INTO postrider_status (event_seq, expired_at) VALUES (?, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE expired_at = VALUES(expired_at)
