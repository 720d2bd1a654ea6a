-- Stores a job's schedule. ? name, ? schedule, ? zone, ? next slot.
INSERT INTO postrider_job (name, schedule, zone, since, next_slot)
VALUES (?, ?, ?, UTC_TIMESTAMP(6), ?)
ON DUPLICATE KEY UPDATE
    -- Another schedule counts as a new job: it does not catch up on slots from before. This line comes first, because each line
    -- sees what the lines above it have set.
    since = CASE WHEN postrider_job.schedule = VALUES(schedule) AND postrider_job.zone = VALUES(zone) THEN postrider_job.since ELSE VALUES(since) END,
    schedule = VALUES(schedule), zone = VALUES(zone), next_slot = VALUES(next_slot)
