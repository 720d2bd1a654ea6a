-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_session SET created_at = created_at - ?1, seen_at = seen_at - ?1, expires_at = expires_at - ?1
