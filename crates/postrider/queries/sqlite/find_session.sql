-- ?1 hash, ?2 how long it may lie idle in ms, ?3 after how many ms a use is noted again.
SELECT t.token_id, t.name, t.role, t.created_at, t.last_used_at, t.revoked_at, s.seen_at <= (SELECT now FROM postrider_clock) - ?3
FROM postrider_session s JOIN postrider_token t ON t.token_id = s.token_id
WHERE s.hash = ?1 AND s.expires_at > (SELECT now FROM postrider_clock) AND s.seen_at > (SELECT now FROM postrider_clock) - ?2 AND t.revoked_at IS NULL
