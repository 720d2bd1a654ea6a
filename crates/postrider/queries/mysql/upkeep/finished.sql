-- The next old events, and whether each is finished. ? older than, in ms; ? after which seq; ? limit.
SELECT e.seq, e.waits_for IS NULL AND NOT EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq)
FROM postrider_event e FORCE INDEX (PRIMARY)
WHERE e.created_at < UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND AND e.seq > ?
ORDER BY e.seq LIMIT ?
