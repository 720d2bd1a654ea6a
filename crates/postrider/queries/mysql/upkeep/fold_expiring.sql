-- Events whose expiry has passed. ? limit.
SELECT event_seq FROM postrider_status FORCE INDEX (postrider_status_expires)
WHERE expires_at <= UTC_TIMESTAMP(6)
ORDER BY expires_at LIMIT ?
