-- How far the next stretch of events goes, and how many there are. ?1 after which seq, ?2 how many at most.
SELECT max(seq), count(*) FROM (SELECT seq FROM postrider_event WHERE seq > ?1 ORDER BY seq LIMIT ?2)
