-- Deletes the completed delivery. ? delivery, ? token.
DELETE FROM postrider_delivery WHERE id = ? AND token = ?
