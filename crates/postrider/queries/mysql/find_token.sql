-- ? after how many ms a use is noted again, ? hash.
SELECT token_id, name, role, created_at, last_used_at, revoked_at,
       last_used_at IS NULL OR last_used_at <= UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND
FROM postrider_token WHERE hash = ? AND revoked_at IS NULL
