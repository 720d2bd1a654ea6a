-- Appends successful attempts. ? [{seq, consumer}] as JSON.
INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at)
SELECT i.seq, i.consumer,
       -- Two targets of one event are two attempts of their lane.
       coalesce((SELECT max(c.attempt) FROM postrider_consumption c WHERE c.event_seq = i.seq AND c.consumer = i.consumer), 0)
           + row_number() OVER (PARTITION BY i.seq, i.consumer),
       TRUE, UTC_TIMESTAMP(6)
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$.seq', consumer VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.consumer')) i
