-- For tests: moves stored times back by ? ms, once for each column.
UPDATE postrider_operation SET lock_until = lock_until - INTERVAL ? * 1000 MICROSECOND, created_at = created_at - INTERVAL ? * 1000 MICROSECOND, updated_at = updated_at - INTERVAL ? * 1000 MICROSECOND, finished_at = finished_at - INTERVAL ? * 1000 MICROSECOND
