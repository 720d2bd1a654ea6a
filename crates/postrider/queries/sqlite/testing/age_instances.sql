-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_instance SET started_at = started_at - ?1, seen_at = seen_at - ?1
