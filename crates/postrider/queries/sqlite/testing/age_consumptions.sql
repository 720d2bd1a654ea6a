-- For tests: as if ?1 ms had passed.
UPDATE postrider_consumption SET created_at = created_at - ?1, consumed_at = consumed_at - ?1
