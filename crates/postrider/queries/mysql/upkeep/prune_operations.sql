-- ? older than, in ms; ? limit.
DELETE FROM postrider_operation WHERE finished_at < UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND ORDER BY number LIMIT ?
