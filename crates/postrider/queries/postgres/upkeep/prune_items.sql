-- Events of operations that go. $1 older than, in ms; $2 limit.
DELETE FROM postrider_operation_item
WHERE ctid = ANY (ARRAY(
    SELECT i.ctid FROM postrider_operation o
    CROSS JOIN LATERAL (SELECT m.ctid FROM postrider_operation_item m WHERE m.operation = o.number LIMIT $2) i
    WHERE o.finished_at < now() - $1 * interval '1 ms' LIMIT $2))
