-- Notes events of an operation. ? its number, ? [{seq, id, step, outcome, rule, watched}] as JSON.
INSERT INTO postrider_operation_item (operation, event_seq, event_id, step, outcome, rule, watched)
SELECT ?, i.seq, i.id, i.step, i.outcome, i.rule, i.watched
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$.seq', id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.id', step INT PATH '$.step',
    outcome SMALLINT PATH '$.outcome', rule VARCHAR(32) CHARACTER SET utf8mb4 PATH '$.rule',
    watched MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$.watched')) i
ON DUPLICATE KEY UPDATE step = VALUES(step), outcome = VALUES(outcome), rule = VALUES(rule), watched = VALUES(watched)
