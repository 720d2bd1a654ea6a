-- Marks, oldest first. ? how many. Locked: what others are about to commit is left to the next time.
SELECT id, event_seq FROM postrider_mark WHERE id > 0 ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED
