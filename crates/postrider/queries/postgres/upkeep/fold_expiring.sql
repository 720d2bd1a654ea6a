-- Events whose expiry has passed. $1 limit.
SELECT event_seq FROM postrider_status
WHERE expires_at IS NOT NULL AND expires_at <= now()
ORDER BY expires_at LIMIT $1
