-- Marks events that were unheard until now, because lists show them so. ?1 [{seq, shard}] as JSON.
INSERT INTO postrider_mark (event_seq)
SELECT s.event_seq FROM json_each(?1) i
CROSS JOIN postrider_status s ON s.event_seq = json_extract(i.value, '$.seq')
