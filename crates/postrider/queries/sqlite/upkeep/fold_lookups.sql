-- Inserts the lookups of events. ?1 [[hash, event seq], …] as JSON.
INSERT INTO postrider_lookup (hash, event_seq)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1)
WHERE true
ON CONFLICT DO NOTHING
