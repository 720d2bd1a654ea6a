-- How many of these events a consumer's inbox really has. $1 consumer, $2 event ids. One by one (OFFSET 0): this runs on the user's
-- sessions, and of one condition the planner may make a walk over all that the consumer ever received.
SELECT count(*)
FROM unnest($2::text[]) AS e (id)
CROSS JOIN LATERAL (SELECT 1 FROM postrider_inbox WHERE consumer = $1 AND event_id = e.id OFFSET 0) i
