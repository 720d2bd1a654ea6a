-- Events that are not folded yet. ? lower bound of seq, ? upper bound, ? limit.
SELECT e.seq FROM postrider_event e FORCE INDEX (PRIMARY)
LEFT JOIN postrider_status s ON s.event_seq = e.seq
WHERE e.seq > ? AND e.seq < ? AND s.status IS NULL
ORDER BY e.seq DESC LIMIT ?
