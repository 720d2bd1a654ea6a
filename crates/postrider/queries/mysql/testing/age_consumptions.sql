-- For tests: moves stored times back by ? ms, once for each column.
UPDATE postrider_consumption SET created_at = created_at - INTERVAL ? * 1000 MICROSECOND, consumed_at = consumed_at - INTERVAL ? * 1000 MICROSECOND
