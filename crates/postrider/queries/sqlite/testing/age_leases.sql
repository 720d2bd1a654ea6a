-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_lease SET lock_time = lock_time - ?1, lock_until = lock_until - ?1
