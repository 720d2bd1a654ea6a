-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_operation
SET lock_until = lock_until - ?1, created_at = created_at - ?1, updated_at = updated_at - ?1, finished_at = finished_at - ?1
