-- How many of these events a consumer's inbox really has. $1 consumer, $2 event ids.
SELECT count(*) FROM postrider_inbox WHERE consumer = $1 AND event_id = ANY ($2)
