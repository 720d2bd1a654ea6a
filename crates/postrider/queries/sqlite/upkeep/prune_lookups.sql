-- ?1 [[hash, event seq], …] as JSON.
DELETE FROM postrider_lookup
WHERE (hash, event_seq) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1))
