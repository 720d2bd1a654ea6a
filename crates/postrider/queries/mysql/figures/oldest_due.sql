-- How long the oldest due delivery of a lane has waited, in ms; NULL if none is due. ? lane, twice.
SELECT CAST(TIMESTAMPDIFF(MICROSECOND, min(first.due_at), UTC_TIMESTAMP(6)) DIV 1000 AS SIGNED)
FROM (
    (SELECT due_at FROM postrider_delivery FORCE INDEX (postrider_delivery_due)
     WHERE lane = ? AND place = 0 AND due_at <= UTC_TIMESTAMP(6)
     ORDER BY due_at LIMIT 1)
    UNION ALL
    (SELECT due_at FROM postrider_delivery FORCE INDEX (postrider_delivery_due)
     WHERE lane = ? AND place = 1 AND due_at <= UTC_TIMESTAMP(6)
     ORDER BY due_at LIMIT 1)
) first
