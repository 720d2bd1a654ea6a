-- How many of these events are in a consumer's inbox. $1 consumer, $2 event ids. One by one (OFFSET 0): this runs on the user's
-- sessions, where the planner may turn one condition into a scan of everything that the consumer ever received. The next
-- statement is the last one of the transaction, so from here on plans are made as on the store's own sessions (session.sql).
SELECT count(*), set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
FROM unnest($2::text[]) AS e (id)
CROSS JOIN LATERAL (SELECT 1 FROM postrider_inbox WHERE consumer = $1 AND event_id = e.id OFFSET 0) i
