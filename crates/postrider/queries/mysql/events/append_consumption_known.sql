-- The attempt number of a known report, and the last attempt number. ? callback id, ? event seq, ? consumer.
SELECT max(CASE WHEN callback_id = ? THEN attempt END), max(attempt)
FROM postrider_consumption
WHERE event_seq = ? AND consumer = ?
