-- $1 event id.
SELECT seq FROM postrider_event WHERE event_id = $1
