-- Appends failed attempts, before retry.sql or bury.sql clears the token. ?1 failures as JSON, ?2 token, ?3 will retry.
INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, will_retry, consumed_at, error, code)
SELECT d.event_seq, CASE d.target WHEN '' THEN d.lane ELSE d.target END,
       1 + coalesce((SELECT max(c.attempt) FROM postrider_consumption c
                     WHERE c.event_seq = d.event_seq AND c.consumer = CASE d.target WHEN '' THEN d.lane ELSE d.target END), 0),
       false, ?3, (SELECT now FROM postrider_clock), i.error, i.code
-- Grouped, so that a duplicate id counts once.
FROM (SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.error') AS error, json_extract(value, '$.code') AS code
      FROM json_each(?1) GROUP BY 1) i
CROSS JOIN postrider_delivery d ON d.id = i.id
WHERE d.token = ?2
