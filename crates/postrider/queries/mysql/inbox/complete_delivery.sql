-- Deletes the completed delivery. ? delivery, ? token, ? consumer. Asks for the lane again: complete.sql does not lock the
-- delivery, and the consumer may be renamed in between.
DELETE FROM postrider_delivery WHERE id = ? AND token = ? AND lane = ?
