-- Appends attempt 0 for consumers that will report. $1 [{seq, consumer}] as JSON.
INSERT INTO postrider_consumption (event_seq, consumer, attempt)
SELECT i.seq, i.consumer, 0 FROM json_to_recordset($1::json) AS i (seq bigint, consumer text)
ON CONFLICT DO NOTHING
