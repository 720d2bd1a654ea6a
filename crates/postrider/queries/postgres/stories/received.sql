-- Inbox rows by consumer and event. $1 [[consumer, event id]] as JSON. One by one (OFFSET 0 fixes the join order).
SELECT r.*
FROM json_array_elements($1::json) AS i
CROSS JOIN LATERAL (
    SELECT consumer, event_id, received_at, idempotency_key, result FROM postrider_inbox
    WHERE consumer = i ->> 0 AND event_id = i ->> 1
    OFFSET 0
) r
