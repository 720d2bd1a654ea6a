-- ?1 event seqs as JSON, of which something has changed.
INSERT INTO postrider_mark (event_seq) SELECT value FROM json_each(?1)
