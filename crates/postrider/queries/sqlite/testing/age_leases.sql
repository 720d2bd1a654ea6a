-- For tests: as if ?1 ms had passed.
UPDATE postrider_lease SET lock_time = lock_time - ?1, lock_until = lock_until - ?1
