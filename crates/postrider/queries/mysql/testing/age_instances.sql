-- For tests: moves stored times back by ? ms, once for each column.
UPDATE postrider_instance SET started_at = started_at - INTERVAL ? * 1000 MICROSECOND, seen_at = seen_at - INTERVAL ? * 1000 MICROSECOND
