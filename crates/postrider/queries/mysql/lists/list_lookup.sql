-- Events with a hash. ? lower bound of seq, ? upper bound, ? hash, ? limit.
SELECT event_seq FROM postrider_lookup
WHERE event_seq > ? AND event_seq < ? AND hash = ?
ORDER BY event_seq DESC LIMIT ?
