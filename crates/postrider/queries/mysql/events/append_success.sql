-- Appends a successful attempt. ? event seq, ? consumer, twice.
INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at)
SELECT ?, ?, 1 + coalesce(max(c.attempt), 0), TRUE, UTC_TIMESTAMP(6)
FROM postrider_consumption c WHERE c.event_seq = ? AND c.consumer = ?
