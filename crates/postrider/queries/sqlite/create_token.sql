-- ?1 token id, ?2 name, ?3 role, ?4 hash. No row: the id or the hash is taken.
INSERT INTO postrider_token (token_id, name, role, hash, created_at) VALUES (?1, ?2, ?3, ?4, (SELECT now FROM postrider_clock))
ON CONFLICT DO NOTHING
