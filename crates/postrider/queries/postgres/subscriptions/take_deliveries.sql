-- Deletes deliveries, also leased ones: their holders find their token gone. $1 [{seq, lane, target}] as JSON.
DELETE FROM postrider_delivery d
USING json_to_recordset($1::json) AS i (seq bigint, lane text, target text)
WHERE d.event_seq = i.seq AND d.lane = i.lane AND d.target = i.target
