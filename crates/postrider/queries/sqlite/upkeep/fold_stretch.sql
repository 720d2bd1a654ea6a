-- The end of the next range of events, and its size. ?1 after which seq, ?2 limit.
SELECT max(seq), count(*) FROM (SELECT seq FROM postrider_event WHERE seq > ?1 ORDER BY seq LIMIT ?2)
