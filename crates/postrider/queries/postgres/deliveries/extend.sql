-- Extends leases. $1 event seqs, $2 ids, $3 token, $4 lease in ms.
UPDATE postrider_delivery d SET lock_until = now() + $4 * interval '1 ms'
WHERE d.event_seq = ANY ($1) AND (d.id IN (SELECT unnest($2::bigint[]))) IS TRUE AND d.token = $3
RETURNING d.event_seq, d.id
