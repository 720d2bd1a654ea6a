-- Which events have this stored status. ?1 event seqs as JSON, ?2 status.
SELECT s.event_seq FROM json_each(?1) i CROSS JOIN postrider_status s ON s.event_seq = i.value
WHERE s.status = ?2
