-- Events with a hash. ? above which seq, ? below which, ? hash, ? how many.
SELECT event_seq FROM postrider_lookup
WHERE event_seq > ? AND event_seq < ? AND hash = ?
ORDER BY event_seq DESC LIMIT ?
