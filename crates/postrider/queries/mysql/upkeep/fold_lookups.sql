-- Inserts the lookups of events. ? [[hash, event seq], …] as JSON.
INSERT INTO postrider_lookup (hash, event_seq)
SELECT i.hash, i.seq FROM JSON_TABLE(?, '$[*]' COLUMNS (hash BIGINT PATH '$[0]', seq BIGINT PATH '$[1]')) i
ON DUPLICATE KEY UPDATE event_seq = postrider_lookup.event_seq
