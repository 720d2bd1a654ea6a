-- For tests: moves stored times back by $1 ms.
UPDATE postrider_job
SET since = since - by, next_slot = next_slot - by, last_slot = last_slot - by, fired_at = fired_at - by,
    lock_until = lock_until - by, finished_at = finished_at - by
FROM (SELECT $1 * interval '1 ms' AS by) age
