-- Which events have a delivery in this state. ? event seqs as JSON, ? its consumer (NULL: any), ? state.
SELECT d.event_seq
FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) i
STRAIGHT_JOIN postrider_delivery d FORCE INDEX (postrider_delivery_event) ON d.event_seq = i.seq
WHERE coalesce(?, d.lane) IN (d.lane, d.target)
  AND ? = CASE WHEN d.place = 3 THEN 'DEAD' WHEN d.token IS NOT NULL THEN 'PROCESSING'
               WHEN d.attempts > 0 THEN 'FAILED' ELSE 'NEW' END
