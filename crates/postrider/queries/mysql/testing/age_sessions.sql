-- For tests: moves stored times back by ? ms, once for each column.
UPDATE postrider_session SET created_at = created_at - INTERVAL ? * 1000 MICROSECOND, seen_at = seen_at - INTERVAL ? * 1000 MICROSECOND, expires_at = expires_at - INTERVAL ? * 1000 MICROSECOND
