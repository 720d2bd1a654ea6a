-- The next range of events. ?1 after which seq, ?2 limit, ?3 older than, in ms. Returns its size, its last seq and whether that
-- event is old: all events after a young one are younger.
SELECT count(*), max(seq), created_at < (SELECT now FROM postrider_clock) - ?3
FROM (SELECT seq, created_at FROM postrider_event WHERE seq > ?1 ORDER BY seq LIMIT ?2 + 0)
