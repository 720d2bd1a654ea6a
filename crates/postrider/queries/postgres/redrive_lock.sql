-- Takes the event, so that it is not pruned meanwhile. $1 event id.
SELECT seq, event_key, expire_at IS NOT NULL AND expire_at <= now()
FROM postrider_event
WHERE event_id = $1
FOR UPDATE
