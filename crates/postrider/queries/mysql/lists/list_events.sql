-- ? lower bound of seq, ? upper bound, ? limit.
SELECT seq FROM postrider_event FORCE INDEX (PRIMARY)
WHERE seq > ? AND seq < ?
ORDER BY seq DESC LIMIT ?
