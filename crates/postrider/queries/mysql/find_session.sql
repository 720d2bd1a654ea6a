-- ? after how many ms a use is noted again, ? hash, ? how long it may lie idle in ms.
SELECT t.token_id, t.name, t.role, t.created_at, t.last_used_at, t.revoked_at, s.seen_at <= UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND
FROM postrider_session s JOIN postrider_token t ON t.token_id = s.token_id
WHERE s.hash = ? AND s.expires_at > UTC_TIMESTAMP(6) AND s.seen_at > UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND AND t.revoked_at IS NULL
