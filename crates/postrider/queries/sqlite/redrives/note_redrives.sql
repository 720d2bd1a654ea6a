-- Counts a redrive. ?1 event seqs as JSON. Runs before the deliveries are written, which must not be due earlier.
INSERT INTO postrider_status AS s (event_seq, redrives, redriven_at)
SELECT i.value, 1, c.now FROM json_each(?1) i, postrider_clock c
WHERE true
ON CONFLICT (event_seq) DO UPDATE SET redrives = s.redrives + 1, redriven_at = excluded.redriven_at
