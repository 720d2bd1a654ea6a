-- Appends attempt 0 for remote consumers that will report. ? [{seq, consumer}] as JSON.
INSERT INTO postrider_consumption (event_seq, consumer, attempt)
SELECT i.seq, i.consumer, 0
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$.seq', consumer VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.consumer')) i
ON DUPLICATE KEY UPDATE attempt = postrider_consumption.attempt
