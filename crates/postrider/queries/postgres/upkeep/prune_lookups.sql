-- $1 hashes, $2 event seqs.
DELETE FROM postrider_lookup l
USING unnest($1::bigint[], $2::bigint[]) AS i (hash, event_seq)
WHERE l.hash = i.hash AND l.event_seq = i.event_seq
