-- Locks the next old events. $1 older than, in ms; $2 after which seq; $3 limit. A redrive locks its event too, so it runs
-- entirely before or after.
SELECT seq FROM postrider_event
WHERE seq > $2 AND created_at < now() - $1 * interval '1 ms'
ORDER BY seq LIMIT $3
FOR UPDATE SKIP LOCKED
