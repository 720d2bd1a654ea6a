-- Events of a range that have no status yet. ?1 after which seq, ?2 up to which, ?3 limit.
SELECT e.seq FROM postrider_event e
WHERE e.seq > ?1 AND e.seq <= ?2
  AND NOT EXISTS (SELECT 1 FROM postrider_status s WHERE s.event_seq = e.seq AND s.status IS NOT NULL)
ORDER BY e.seq LIMIT ?3
