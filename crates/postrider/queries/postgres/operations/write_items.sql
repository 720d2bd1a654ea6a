-- Notes events of an operation. $1 its number, $2 [{seq, id, step, outcome, rule, watched}] as JSON.
INSERT INTO postrider_operation_item (operation, event_seq, event_id, step, outcome, rule, watched)
SELECT $1, i.seq, i.id, i.step, i.outcome, i.rule, i.watched
FROM json_to_recordset($2::json) AS i (
    seq bigint, id text, step integer, outcome smallint, rule text, watched text)
ON CONFLICT (operation, event_seq) DO UPDATE
SET step = excluded.step, outcome = excluded.outcome, rule = excluded.rule, watched = excluded.watched
