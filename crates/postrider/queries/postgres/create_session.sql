-- $1 hash, $2 token id, $3 how long it lasts in ms.
INSERT INTO postrider_session (hash, token_id, expires_at) VALUES ($1, $2, now() + $3 * interval '1 ms')
