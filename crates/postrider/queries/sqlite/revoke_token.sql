-- ?1 token id.
UPDATE postrider_token SET revoked_at = (SELECT now FROM postrider_clock) WHERE token_id = ?1 AND revoked_at IS NULL
