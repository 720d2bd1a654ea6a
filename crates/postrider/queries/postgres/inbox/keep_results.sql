-- Stores a consumer's results for many events. $1 consumer, $2 event ids, $3 results. No join: this runs on the user's
-- sessions, where the planner may turn one into a scan of everything that the consumer ever received.
UPDATE postrider_inbox SET result = ($3::text[])[array_position($2::text[], event_id)]
WHERE consumer = $1 AND event_id = ANY ($2::text[])
