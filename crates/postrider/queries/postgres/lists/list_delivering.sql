-- Which events have a delivery in this state. $1 event seqs, $2 its consumer (NULL: any), $3 state. One by one, as in list_among_lookup.sql.
SELECT d.event_seq
FROM unnest($1::bigint[]) AS i (seq)
CROSS JOIN LATERAL (SELECT * FROM postrider_delivery WHERE event_seq = i.seq OFFSET 0) d
WHERE coalesce($2, d.lane) IN (d.lane, d.target)
  AND $3 = CASE WHEN d.place = 3 THEN 'DEAD' WHEN d.token IS NOT NULL THEN 'PROCESSING'
                WHEN d.attempts > 0 THEN 'FAILED' ELSE 'NEW' END
