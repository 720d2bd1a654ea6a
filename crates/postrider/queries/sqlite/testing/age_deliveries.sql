-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_delivery SET due_at = due_at - ?1, lock_time = lock_time - ?1, lock_until = lock_until - ?1
