-- $1 event seqs, of which something has changed.
INSERT INTO postrider_mark (event_seq) SELECT unnest($1::bigint[])
