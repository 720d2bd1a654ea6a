-- ? lease in ms, ? name, ? token.
UPDATE postrider_job SET lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND WHERE name = ? AND token = ?
