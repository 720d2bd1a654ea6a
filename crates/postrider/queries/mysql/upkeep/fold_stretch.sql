-- How far the next stretch of events goes, and how many there are. ? after which seq, ? how many at most.
SELECT max(seq), count(*) FROM (SELECT seq FROM postrider_event FORCE INDEX (PRIMARY) WHERE seq > ? ORDER BY seq LIMIT ?) s
