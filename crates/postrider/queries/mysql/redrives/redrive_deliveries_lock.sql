-- Locks their deliveries, so that none is claimed or settled meanwhile. ? event seqs as JSON, in order.
SELECT d.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (postrider_delivery_event) ON d.event_seq = i.seq
FOR UPDATE
