-- What a consumer has to say about many events. $1 consumer, $2 event ids, $3 results.
UPDATE postrider_inbox i SET result = r.result
FROM unnest($2::text[], $3::text[]) AS r (event_id, result)
WHERE i.consumer = $1 AND i.event_id = r.event_id
