-- Stores a job's schedule if it differs from the stored one. $1 name, $2 schedule, $3 zone, $4 next slot.
INSERT INTO postrider_job AS j (name, schedule, zone, since, next_slot)
VALUES ($1, $2, $3, now(), $4)
ON CONFLICT (name) DO UPDATE
SET schedule = excluded.schedule, zone = excluded.zone, next_slot = excluded.next_slot,
    -- Another schedule counts as a new job: it does not catch up on slots from before.
    since = CASE WHEN j.schedule = excluded.schedule AND j.zone = excluded.zone THEN j.since ELSE excluded.since END
WHERE (j.schedule, j.zone, j.next_slot) IS DISTINCT FROM (excluded.schedule, excluded.zone, excluded.next_slot)
