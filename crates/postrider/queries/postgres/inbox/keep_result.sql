-- Stores a consumer's result for one event. $1 consumer, $2 event id, $3 result. Separate from keep_results.sql: a generic plan
-- for any number of events seems expensive for one, so PostgreSQL would plan each use.
UPDATE postrider_inbox SET result = $3 WHERE consumer = $1 AND event_id = $2
