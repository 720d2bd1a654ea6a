-- ?1 above which seq, ?2 below which, ?3 how many, ?4 hash.
SELECT event_seq FROM postrider_lookup
WHERE hash = ?4 AND event_seq > ?1 AND event_seq < ?2
ORDER BY event_seq DESC LIMIT ?3
