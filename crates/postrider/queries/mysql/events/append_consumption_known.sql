-- As which attempt this report is known, and the last attempt there is. ? callback id, ? event seq, ? consumer.
SELECT max(CASE WHEN callback_id = ? THEN attempt END), max(attempt)
FROM postrider_consumption
WHERE event_seq = ? AND consumer = ?
