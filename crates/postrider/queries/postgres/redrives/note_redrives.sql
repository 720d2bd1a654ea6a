-- Counts a redrive. $1 event seqs. Runs before the deliveries are written, which must not be due earlier.
INSERT INTO postrider_status AS s (event_seq, redrives, redriven_at)
SELECT unnest($1::bigint[]), 1, now()
ON CONFLICT (event_seq) DO UPDATE SET redrives = s.redrives + 1, redriven_at = excluded.redriven_at
