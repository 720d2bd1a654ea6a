-- Inserts the lookups of events. $1 hashes, $2 event seqs.
INSERT INTO postrider_lookup (hash, event_seq)
SELECT * FROM unnest($1::bigint[], $2::bigint[])
ON CONFLICT DO NOTHING
