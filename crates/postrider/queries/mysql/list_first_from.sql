-- The first event from a seq on. ? seq.
SELECT seq, created_at FROM postrider_event WHERE seq >= ? ORDER BY seq LIMIT 1
