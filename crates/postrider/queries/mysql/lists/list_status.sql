-- ? lower bound of seq, ? upper bound, ? status, ? limit.
SELECT event_seq FROM postrider_status FORCE INDEX (postrider_status_status)
WHERE event_seq > ? AND event_seq < ? AND status = ?
ORDER BY event_seq DESC LIMIT ?
