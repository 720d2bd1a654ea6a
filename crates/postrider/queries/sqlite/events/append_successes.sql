-- Appends successful attempts. ?1 [[event seq, consumer], …] as JSON.
INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at)
SELECT i.event_seq, i.consumer,
       -- Two targets of one event are two attempts of their lane.
       coalesce((SELECT max(c.attempt) FROM postrider_consumption c
                 WHERE c.event_seq = i.event_seq AND c.consumer = i.consumer), 0)
           + row_number() OVER (PARTITION BY i.event_seq, i.consumer),
       true, (SELECT now FROM postrider_clock)
FROM (SELECT json_extract(value, '$[0]') AS event_seq, json_extract(value, '$[1]') AS consumer FROM json_each(?1)) i
