-- ? event seqs as JSON, of which something has changed.
INSERT INTO postrider_mark (event_seq)
SELECT i.seq FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
