-- ? token, ? owner, ? lease in ms, ? id.
UPDATE postrider_operation SET token = ?, lock_owner = ?, lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND WHERE id = ?
