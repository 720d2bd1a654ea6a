-- For tests: moves stored times back by ? ms, once for each column.
UPDATE postrider_inbox SET received_at = received_at - INTERVAL ? * 1000 MICROSECOND
