-- Removes what is done, where none has a key. ?1 ids as JSON, ?2 token. Without RETURNING, which took as long as the rest:
-- whoever finds all of them removed need not be told which.
DELETE FROM postrider_delivery
WHERE id IN (SELECT value FROM json_each(?1)) AND token = ?2 AND event_key IS NULL
