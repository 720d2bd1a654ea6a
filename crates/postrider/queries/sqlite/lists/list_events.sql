-- ?1 above which seq, ?2 below which, ?3 how many.
SELECT seq FROM postrider_event
WHERE seq > ?1 AND seq < ?2
ORDER BY seq DESC LIMIT ?3
