-- ?1 lower bound of seq, ?2 upper bound, ?3 status, ?4 limit.
SELECT event_seq FROM postrider_status INDEXED BY postrider_status_status
WHERE status = ?3 AND event_seq > ?1 AND event_seq < ?2
ORDER BY event_seq DESC LIMIT ?4
