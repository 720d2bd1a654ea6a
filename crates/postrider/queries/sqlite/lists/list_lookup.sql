-- Events with a hash. ?1 lower bound of seq, ?2 upper bound, ?3 hash, ?4 limit.
SELECT event_seq FROM postrider_lookup
WHERE event_seq > ?1 AND event_seq < ?2 AND hash = ?3
ORDER BY event_seq DESC LIMIT ?4
