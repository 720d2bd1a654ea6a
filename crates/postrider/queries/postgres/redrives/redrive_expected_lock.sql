-- Locks the rows of attempt 0, so that no report is appended meanwhile. $1 event seqs.
SELECT 1 FROM postrider_consumption WHERE event_seq = ANY ($1) AND attempt = 0 ORDER BY event_seq, consumer FOR UPDATE
