-- ? hash, ? token id, ? how long it lasts in ms.
INSERT INTO postrider_session (hash, token_id, expires_at) VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND)
