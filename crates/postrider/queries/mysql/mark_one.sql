-- ? event seq, of which something has changed.
INSERT INTO postrider_mark (event_seq) VALUES (?)
