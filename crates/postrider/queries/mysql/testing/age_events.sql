-- For tests: moves stored times back by ? ms, once for each column.
UPDATE postrider_event SET created_at = created_at - INTERVAL ? * 1000 MICROSECOND, expire_at = expire_at - INTERVAL ? * 1000 MICROSECOND, deliver_at = deliver_at - INTERVAL ? * 1000 MICROSECOND
