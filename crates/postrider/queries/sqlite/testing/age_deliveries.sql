-- For tests: as if ?1 ms had passed.
UPDATE postrider_delivery SET due_at = due_at - ?1, lock_time = lock_time - ?1, lock_until = lock_until - ?1
