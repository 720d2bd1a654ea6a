-- ? id, ? filter, ? options, ? total. Asked for twice, it is one. It begins below what is written from now on.
INSERT INTO postrider_operation (id, state, filter, options, total, position, created_at, updated_at)
SELECT ?, 'RUNNING', ?, ?, ?, 1 + coalesce((SELECT max(seq) FROM postrider_event), 0), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
FROM DUAL
ON DUPLICATE KEY UPDATE id = postrider_operation.id
