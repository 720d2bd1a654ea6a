-- ?1 event seqs as JSON.
SELECT c.event_seq, c.consumer, c.attempt, c.success, c.will_retry, c.consumed_at, c.error, c.code, c.created_at
FROM json_each(?1) i
CROSS JOIN postrider_consumption c ON c.event_seq = i.value
ORDER BY c.event_seq, c.consumer, c.attempt
