-- For tests: moves stored times back by ? ms, once for each column.
UPDATE postrider_delivery SET due_at = due_at - INTERVAL ? * 1000 MICROSECOND, lock_time = lock_time - INTERVAL ? * 1000 MICROSECOND, lock_until = lock_until - INTERVAL ? * 1000 MICROSECOND
