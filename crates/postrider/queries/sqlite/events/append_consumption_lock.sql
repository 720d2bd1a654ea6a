-- Whether the consumer is expected, and the attempt number of a known report. ?1 event id, ?2 consumer, ?3 callback id. The
-- transaction has the write lock, so attempts are numbered one after the other.
SELECT c.event_seq,
       (SELECT k.attempt FROM postrider_consumption k
        WHERE k.event_seq = c.event_seq AND k.consumer = c.consumer AND k.callback_id = ?3)
FROM postrider_event e
JOIN postrider_consumption c ON c.event_seq = e.seq AND c.consumer = ?2 AND c.attempt = 0
WHERE e.event_id = ?1
