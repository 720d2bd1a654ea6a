-- Takes the event, so that it is not pruned meanwhile. ? event id.
SELECT seq, event_key, expire_at IS NOT NULL AND expire_at <= UTC_TIMESTAMP(6)
FROM postrider_event
WHERE event_id = ?
FOR UPDATE
