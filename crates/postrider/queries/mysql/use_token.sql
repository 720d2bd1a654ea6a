-- ? token id.
UPDATE postrider_token SET last_used_at = UTC_TIMESTAMP(6) WHERE token_id = ?
