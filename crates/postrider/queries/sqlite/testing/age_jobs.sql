-- For tests: moves stored times back by ?1 ms.
UPDATE postrider_job
SET since = since - ?1, next_slot = next_slot - ?1, last_slot = last_slot - ?1, fired_at = fired_at - ?1,
    lock_until = lock_until - ?1, finished_at = finished_at - ?1
