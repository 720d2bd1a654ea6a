-- Counts a redrive. $1 event seqs. Before the deliveries are written: they are due no sooner than this.
INSERT INTO postrider_status AS s (event_seq, redrives, redriven_at)
SELECT unnest($1::bigint[]), 1, now()
ON CONFLICT (event_seq) DO UPDATE SET redrives = s.redrives + 1, redriven_at = excluded.redriven_at
