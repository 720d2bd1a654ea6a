-- Releases the rest of the runs whose deliveries have failed, before retry.sql or bury.sql clears the token. ?1 failures as
-- JSON, ?2 token.
WITH failed AS MATERIALIZED (
    SELECT d.lane, d.event_key, min(d.event_seq) AS event_seq
    FROM json_each(?1) i
    CROSS JOIN postrider_delivery d ON d.id = json_extract(i.value, '$.id')
    WHERE d.token = ?2 AND d.event_key IS NOT NULL
    GROUP BY d.lane, d.event_key
)
UPDATE postrider_delivery
SET attempts = attempts - 1, token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
WHERE id IN (
    SELECT n.id FROM failed f
    CROSS JOIN postrider_delivery n ON n.lane = f.lane AND n.event_key = f.event_key AND n.event_seq > f.event_seq
    WHERE n.token = ?2)
  AND id NOT IN (SELECT json_extract(value, '$.id') FROM json_each(?1))
