-- ? event seq.
SELECT consumer, attempt, success, will_retry, consumed_at, error, code, created_at
FROM postrider_consumption WHERE event_seq = ?
ORDER BY consumer, attempt
