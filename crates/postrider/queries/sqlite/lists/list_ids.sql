-- Events with these ids. ?1 event ids as JSON.
SELECT seq FROM postrider_event WHERE event_id IN (SELECT value FROM json_each(?1))
