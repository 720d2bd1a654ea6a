-- How many of these events a consumer's inbox really has. $1 consumer, $2 event ids. One by one (OFFSET 0): this runs on the user's
-- sessions, and of one condition the planner may make a walk over all that the consumer ever received. What comes next is the
-- last statement of the transaction: for the rest of it, plans are made as on our own sessions (session.sql).
SELECT count(*), set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
FROM unnest($2::text[]) AS e (id)
CROSS JOIN LATERAL (SELECT 1 FROM postrider_inbox WHERE consumer = $1 AND event_id = e.id OFFSET 0) i
