-- Releases deliveries that were not attempted. ?1 ids as JSON, ?2 token.
UPDATE postrider_delivery
SET attempts = attempts - 1, token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
WHERE id IN (SELECT value FROM json_each(?1)) AND token = ?2
RETURNING event_seq, id
