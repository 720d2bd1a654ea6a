-- Inbox rows by consumer and event. ?1 [[consumer, event id]] as JSON.
SELECT r.consumer, r.event_id, r.received_at, r.idempotency_key, r.result
FROM json_each(?1) i
CROSS JOIN postrider_inbox r ON r.consumer = json_extract(i.value, '$[0]') AND r.event_id = json_extract(i.value, '$[1]')
