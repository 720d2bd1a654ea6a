-- Clears `held` on claimed deliveries: the dead delivery in front was removed by hand. ?1 ids as JSON.
UPDATE postrider_delivery SET held = false WHERE id IN (SELECT value FROM json_each(?1))
