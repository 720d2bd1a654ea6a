-- Locks marks, oldest first. ? limit. SKIP LOCKED leaves uncommitted marks to the next fold.
SELECT id, event_seq FROM postrider_mark WHERE id > 0 ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED
