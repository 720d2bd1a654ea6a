-- ?1 hash, ?2 token id, ?3 how long it lasts in ms.
INSERT INTO postrider_session (hash, token_id, created_at, seen_at, expires_at)
SELECT ?1, ?2, now, now, now + ?3 FROM postrider_clock
