-- ? above which seq, ? below which, ? how many.
SELECT seq FROM postrider_event FORCE INDEX (PRIMARY)
WHERE seq > ? AND seq < ?
ORDER BY seq DESC LIMIT ?
