-- For tests: as if ?1 ms had passed.
UPDATE postrider_session SET created_at = created_at - ?1, seen_at = seen_at - ?1, expires_at = expires_at - ?1
