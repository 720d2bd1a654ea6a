-- Appends a report. ? event seq, ? consumer, ? attempt, ? success, ? will retry, ? consumed at, ? error, ? code, ? callback id.
INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, will_retry, consumed_at, error, code, callback_id)
VALUES (?, ?, ?, ?, ?, coalesce(?, UTC_TIMESTAMP(6)), ?, ?, ?)
