-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_token SET created_at = created_at - ?1, last_used_at = last_used_at - ?1, revoked_at = revoked_at - ?1, expires_at = expires_at - ?1
