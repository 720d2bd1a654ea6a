-- Appends attempt 0 for consumers that will report. ?1 [{seq, consumer}] as JSON.
INSERT INTO postrider_consumption (event_seq, consumer, attempt)
SELECT json_extract(value, '$.seq'), json_extract(value, '$.consumer'), 0 FROM json_each(?1)
WHERE true
ON CONFLICT (event_seq, consumer, attempt) DO NOTHING
