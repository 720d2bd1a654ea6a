-- $1 token id.
UPDATE postrider_token SET last_used_at = now() WHERE token_id = $1
