-- $1 hash, $2 after how many ms a use is noted again.
SELECT token_id, name, role, created_at, last_used_at, revoked_at,
       last_used_at IS NULL OR last_used_at <= now() - $2 * interval '1 ms'
FROM postrider_token WHERE hash = $1 AND revoked_at IS NULL
