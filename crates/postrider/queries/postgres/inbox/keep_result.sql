-- What a consumer has to say about one event. $1 consumer, $2 event id, $3 result. Apart from keep_results.sql: a plan for any
-- number of events seems dear for one, and so would be made anew each time.
UPDATE postrider_inbox SET result = $3 WHERE consumer = $1 AND event_id = $2
