-- Which events have a hash. ?1 event seqs as JSON, ?2 hash.
SELECT l.event_seq FROM json_each(?1) i CROSS JOIN postrider_lookup l ON l.hash = ?2 AND l.event_seq = i.value
