-- The end of the next range of events, and its size. ? after which seq, ? limit.
SELECT max(seq), count(*) FROM (SELECT seq FROM postrider_event FORCE INDEX (PRIMARY) WHERE seq > ? ORDER BY seq LIMIT ?) s
