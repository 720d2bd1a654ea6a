-- Marks events as routed or unheard. ?1 [{seq, shard}] as JSON.
UPDATE postrider_event
SET waits_for = CASE WHEN NOT EXISTS (SELECT 1 FROM postrider_subscription s
                                      WHERE s.topic IN (postrider_event.topic, '*') AND s.enabled AND NOT s.removed)
                     THEN topic END
WHERE seq IN (SELECT json_extract(value, '$.seq') FROM json_each(?1))
RETURNING waits_for IS NULL
