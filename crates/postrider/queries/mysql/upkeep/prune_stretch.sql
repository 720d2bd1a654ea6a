-- The next events, and whether each is old and finished. ? older than, in ms; ? after which seq; ? limit. Locks nothing.
SELECT seq, created_at < UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND, waits_for IS NULL
FROM postrider_event
WHERE seq > ?
ORDER BY seq LIMIT ?
