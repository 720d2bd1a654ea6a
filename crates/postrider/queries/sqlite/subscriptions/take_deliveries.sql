-- Deletes deliveries, also leased ones: their holders find their token gone. ?1 [{seq, lane, target}] as JSON.
DELETE FROM postrider_delivery
WHERE (event_seq, lane, target) IN (
    SELECT json_extract(value, '$.seq'), json_extract(value, '$.lane'), json_extract(value, '$.target') FROM json_each(?1))
