-- For tests: as if ? ms had passed, named once for each column.
UPDATE postrider_inbox SET received_at = received_at - INTERVAL ? * 1000 MICROSECOND
