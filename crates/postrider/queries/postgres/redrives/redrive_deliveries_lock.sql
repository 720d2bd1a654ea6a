-- Locks their deliveries, so that none is claimed or settled meanwhile. $1 event seqs.
SELECT 1 FROM postrider_delivery WHERE event_seq = ANY ($1) ORDER BY event_seq, lane, target FOR UPDATE
