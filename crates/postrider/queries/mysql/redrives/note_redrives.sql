-- Counts a redrive. ? event seqs as JSON. Runs before the deliveries are written, which must not be due earlier.
INSERT INTO postrider_status (event_seq, redrives, redriven_at)
SELECT i.seq, 1, UTC_TIMESTAMP(6) FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
ON DUPLICATE KEY UPDATE redrives = postrider_status.redrives + 1, redriven_at = UTC_TIMESTAMP(6)
