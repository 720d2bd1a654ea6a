-- Locks events, so that they are not pruned meanwhile. $1 event seqs.
SELECT seq FROM postrider_event WHERE seq = ANY ($1) ORDER BY seq FOR UPDATE
