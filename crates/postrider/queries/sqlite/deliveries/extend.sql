-- Extends leases. ?1 ids as JSON, ?2 token, ?3 lease in ms.
UPDATE postrider_delivery SET lock_until = (SELECT now FROM postrider_clock) + ?3
WHERE id IN (SELECT value FROM json_each(?1)) AND token = ?2
RETURNING event_seq, id
