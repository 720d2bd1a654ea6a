-- Events whose ids are in a range. ? first id, ? first id after the range, ? limit.
SELECT seq FROM postrider_event FORCE INDEX (postrider_event_id)
WHERE event_id >= ? AND event_id < ?
ORDER BY event_id LIMIT ?
