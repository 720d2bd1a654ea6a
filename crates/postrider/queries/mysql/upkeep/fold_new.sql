-- Events of a range that have no status yet. ? after which seq, ? up to which, ? limit.
SELECT e.seq FROM postrider_event e FORCE INDEX (PRIMARY)
LEFT JOIN postrider_status s ON s.event_seq = e.seq
WHERE e.seq > ? AND e.seq <= ? AND s.status IS NULL
ORDER BY e.seq LIMIT ?
