-- Events whose ids are in a range. ?1 first id, ?2 first id after the range, ?3 limit.
SELECT seq FROM postrider_event
WHERE event_id >= ?1 AND event_id < ?2
ORDER BY event_id LIMIT ?3
