-- ?1 lower bound of seq, ?2 upper bound, ?3 limit.
SELECT seq FROM postrider_event
WHERE seq > ?1 AND seq < ?2
ORDER BY seq DESC LIMIT ?3
