-- Which of these events are finished. ?1 event seqs as JSON. The transaction has the write lock.
SELECT e.seq FROM json_each(?1) i
CROSS JOIN postrider_event e ON e.seq = i.value
WHERE e.waits_for IS NULL AND NOT EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq)
ORDER BY e.seq
