-- The event and its delivery, if there is one. ?1 event id, ?2 lane, ?3 target. The transaction has the write lock already.
SELECT e.seq, e.event_key, e.expire_at IS NOT NULL AND e.expire_at <= (SELECT now FROM postrider_clock),
       EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq AND d.lane = ?2 AND d.target = ?3)
FROM postrider_event e
WHERE e.event_id = ?1
