-- Takes their deliveries, so that nobody claims or settles one meanwhile. $1 event seqs.
SELECT 1 FROM postrider_delivery WHERE event_seq = ANY ($1) ORDER BY event_seq, lane, target FOR UPDATE
