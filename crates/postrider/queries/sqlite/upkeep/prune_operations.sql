-- ?1 older than, in ms; ?2 limit.
DELETE FROM postrider_operation
WHERE number IN (SELECT number FROM postrider_operation WHERE finished_at < (SELECT now FROM postrider_clock) - ?1 ORDER BY number LIMIT ?2)
