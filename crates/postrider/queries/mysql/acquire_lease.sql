-- Takes a lease over that ran out. ? owner, ? token, ? lease in ms, ? name.
UPDATE postrider_lease
SET owner = ?, token = ?, lock_time = UTC_TIMESTAMP(6), lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE name = ? AND lock_until <= UTC_TIMESTAMP(6)
