-- Notes events of an operation. ?1 its number, ?2 [{seq, id, step, outcome, rule, watched}] as JSON.
INSERT INTO postrider_operation_item (operation, event_seq, event_id, step, outcome, rule, watched)
SELECT ?1, json_extract(value, '$.seq'), json_extract(value, '$.id'), json_extract(value, '$.step'),
       json_extract(value, '$.outcome'), json_extract(value, '$.rule'), json_extract(value, '$.watched')
FROM json_each(?2)
-- Without a WHERE, the parser reads ON as part of a join.
WHERE true
ON CONFLICT (operation, event_seq) DO UPDATE
SET step = excluded.step, outcome = excluded.outcome, rule = excluded.rule, watched = excluded.watched
