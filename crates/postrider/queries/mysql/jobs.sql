SELECT name, schedule, zone, since, next_slot, last_slot, fired_at, owner, lock_until, finished_at, last_result, last_error
FROM postrider_job ORDER BY name
