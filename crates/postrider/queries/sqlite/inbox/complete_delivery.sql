-- Deletes the completed delivery. ?1 delivery, ?2 token.
DELETE FROM postrider_delivery WHERE id = ?1 AND token = ?2
RETURNING event_seq
