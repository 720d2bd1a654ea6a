-- The first event from a seq on. ?1 seq.
SELECT seq, created_at FROM postrider_event WHERE seq >= ?1 ORDER BY seq LIMIT 1
