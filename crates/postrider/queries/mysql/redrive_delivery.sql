-- Takes the delivery, if there is one, and says whether somebody works on it. ? event seq, ? lane, ? target.
SELECT id, token IS NOT NULL AND lock_until > UTC_TIMESTAMP(6)
FROM postrider_delivery
WHERE event_seq = ? AND lane = ? AND target = ?
FOR UPDATE
