-- The next stretch of events. ?1 after which seq, ?2 how many, ?3 older than, in ms. Answers with how many there are, the
-- last one's seq and whether it is old: what comes after a young one is younger still.
SELECT count(*), max(seq), created_at < (SELECT now FROM postrider_clock) - ?3
FROM (SELECT seq, created_at FROM postrider_event WHERE seq > ?1 ORDER BY seq LIMIT ?2 + 0)
