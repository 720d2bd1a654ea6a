-- Appends a report under the next number. ?1 event seq, ?2 consumer, ?3 success, ?4 will retry, ?5 consumed at, ?6 error, ?7
-- code, ?8 callback id. Returns the attempt's number.
INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, will_retry, consumed_at, error, code, callback_id)
SELECT ?1, ?2, 1 + max(attempt), ?3, ?4, coalesce(?5, (SELECT now FROM postrider_clock)), ?6, ?7, ?8
FROM postrider_consumption
WHERE event_seq = ?1 AND consumer = ?2
RETURNING attempt
