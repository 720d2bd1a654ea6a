-- Removes marks before anything is read. ?1 limit. Returns their events.
DELETE FROM postrider_mark WHERE id IN (SELECT id FROM postrider_mark ORDER BY id LIMIT ?1)
RETURNING event_seq
