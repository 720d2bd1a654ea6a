-- ? token id.
UPDATE postrider_token SET revoked_at = UTC_TIMESTAMP(6) WHERE token_id = ? AND revoked_at IS NULL
