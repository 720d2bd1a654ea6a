-- Deletes settled deliveries if none has a key. ?1 ids as JSON, ?2 token. Without RETURNING, which took as long as the rest: if
-- the count is complete, the caller need not know the ids.
DELETE FROM postrider_delivery
WHERE id IN (SELECT value FROM json_each(?1)) AND token = ?2 AND event_key IS NULL
