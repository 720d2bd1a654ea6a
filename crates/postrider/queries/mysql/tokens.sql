SELECT token_id, name, role, created_at, last_used_at, revoked_at, false
FROM postrider_token ORDER BY created_at, token_id
