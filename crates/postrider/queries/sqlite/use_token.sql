-- ?1 token id.
UPDATE postrider_token SET last_used_at = (SELECT now FROM postrider_clock) WHERE token_id = ?1
