-- The next old events, and whether each is finished. $1 older than, in ms; $2 after which seq; $3 limit.
SELECT s.seq, s.waits_for IS NULL AND NOT EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = s.seq)
FROM (SELECT seq, waits_for FROM postrider_event WHERE seq > $2 AND created_at < now() - $1 * interval '1 ms' ORDER BY seq LIMIT $3) s
ORDER BY s.seq
