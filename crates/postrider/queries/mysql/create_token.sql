-- ? token id, ? name, ? role, ? hash. 1062: the id or the hash is taken.
INSERT INTO postrider_token (token_id, name, role, hash) VALUES (?, ?, ?, ?)
