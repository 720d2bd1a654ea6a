-- Events of operations that go. ?1 older than, in ms; ?2 limit.
DELETE FROM postrider_operation_item
WHERE (operation, event_seq) IN (
    SELECT i.operation, i.event_seq
    FROM postrider_operation o CROSS JOIN postrider_operation_item i ON i.operation = o.number
    WHERE o.finished_at < (SELECT now FROM postrider_clock) - ?1 LIMIT ?2)
