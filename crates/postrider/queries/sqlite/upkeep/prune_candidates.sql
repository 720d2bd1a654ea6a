-- The finished, old events of a range. ?1 after which seq, ?2 up to which, ?3 older than, in ms. The transaction has the write
-- lock.
SELECT seq FROM postrider_event
WHERE seq > ?1 AND seq <= ?2 AND waits_for IS NULL AND created_at < (SELECT now FROM postrider_clock) - ?3
  AND NOT EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = seq)
ORDER BY seq
