-- Which events have this stored status. $1 event seqs, $2 status. One by one, as in list_among_lookup.sql.
SELECT s.event_seq
FROM unnest($1::bigint[]) AS i (seq)
CROSS JOIN LATERAL (SELECT event_seq, status FROM postrider_status WHERE event_seq = i.seq OFFSET 0) s
WHERE s.status = $2
