-- $1 token id.
UPDATE postrider_token SET revoked_at = now() WHERE token_id = $1 AND revoked_at IS NULL
