-- For tests: moves stored times back by ? ms, once for each column.
UPDATE postrider_alert SET since = since - INTERVAL ? * 1000 MICROSECOND, over_at = over_at - INTERVAL ? * 1000 MICROSECOND
