-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_consumption SET created_at = created_at - ?1, consumed_at = consumed_at - ?1
