-- Marks deliveries as dead. ?1 burials as JSON, ?2 token.
UPDATE postrider_delivery AS d
SET dead = true, skipped_at = NULL, last_error = json_extract(i.value, '$.error'),
    attempts = CASE WHEN json_extract(i.value, '$.tried') THEN d.attempts ELSE d.attempts - 1 END,
    token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
FROM json_each(?1) i
WHERE d.id = json_extract(i.value, '$.id') AND d.token = ?2
RETURNING event_seq, id
