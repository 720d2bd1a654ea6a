-- Removes marks before anything is read: a later commit sets a new mark. $1 limit. Returns their events.
WITH taken AS MATERIALIZED (
    SELECT id FROM postrider_mark ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
)
DELETE FROM postrider_mark m USING taken t WHERE m.id = t.id
RETURNING m.event_seq
