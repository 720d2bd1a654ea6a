-- For tests: moves stored times back by ? ms, once for each column.
UPDATE postrider_token SET created_at = created_at - INTERVAL ? * 1000 MICROSECOND, last_used_at = last_used_at - INTERVAL ? * 1000 MICROSECOND, revoked_at = revoked_at - INTERVAL ? * 1000 MICROSECOND, expires_at = expires_at - INTERVAL ? * 1000 MICROSECOND
