-- ? older than, in ms; ? limit.
DELETE i
FROM (
    SELECT consumer, event_id FROM postrider_inbox FORCE INDEX (postrider_inbox_received)
    WHERE received_at < UTC_TIMESTAMP(6) - INTERVAL ? * 1000 MICROSECOND
    ORDER BY received_at LIMIT ?
    FOR UPDATE SKIP LOCKED
) old
STRAIGHT_JOIN postrider_inbox i FORCE INDEX (PRIMARY) ON i.consumer = old.consumer AND i.event_id = old.event_id
