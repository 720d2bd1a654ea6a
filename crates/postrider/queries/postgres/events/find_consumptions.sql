-- $1 event seqs.
SELECT event_seq, consumer, attempt, success, will_retry, consumed_at, error, code, created_at
FROM postrider_consumption WHERE event_seq = ANY ($1)
ORDER BY event_seq, consumer, attempt
