-- For tests: as if ?1 ms had passed.
UPDATE postrider_token SET created_at = created_at - ?1, last_used_at = last_used_at - ?1, revoked_at = revoked_at - ?1
