-- Takes a lease that nobody has had. ? name, ? owner, ? token, ? lease in ms.
INSERT INTO postrider_lease (name, owner, token, lock_time, lock_until)
VALUES (?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND)
