-- Releases deliveries that were not attempted. $1 event seqs, $2 ids, $3 token.
UPDATE postrider_delivery d
SET attempts = attempts - 1, token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
WHERE d.event_seq = ANY ($1) AND (d.id IN (SELECT unnest($2::bigint[]))) IS TRUE AND d.token = $3
RETURNING d.event_seq, d.id
