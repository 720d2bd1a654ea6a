-- ?1 id, ?2 filter, ?3 options, ?4 total. Asked for twice, it is one. It begins below what is written from now on.
INSERT INTO postrider_operation (id, state, filter, options, total, position, created_at, updated_at)
SELECT ?1, 'RUNNING', ?2, ?3, ?4, 1 + coalesce((SELECT max(seq) FROM postrider_event), 0), (SELECT now FROM postrider_clock), (SELECT now FROM postrider_clock)
WHERE true
ON CONFLICT (id) DO NOTHING
