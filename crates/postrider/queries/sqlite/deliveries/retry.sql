-- Makes failed deliveries due again. ?1 failures as JSON, ?2 token.
UPDATE postrider_delivery AS d
SET due_at = (SELECT now FROM postrider_clock) + json_extract(i.value, '$.after_ms'),
    last_error = json_extract(i.value, '$.error'),
    token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
FROM json_each(?1) i
WHERE d.id = json_extract(i.value, '$.id') AND d.token = ?2
RETURNING event_seq, id
