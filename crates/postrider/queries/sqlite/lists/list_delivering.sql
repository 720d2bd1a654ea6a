-- Which events have a delivery in this state. ?1 event seqs as JSON, ?2 its consumer (NULL: any), ?3 state.
SELECT d.event_seq FROM json_each(?1) i CROSS JOIN postrider_delivery d ON d.event_seq = i.value
WHERE coalesce(?2, d.lane) IN (d.lane, d.target)
  AND ?3 = CASE WHEN d.dead THEN 'DEAD' WHEN d.token IS NOT NULL THEN 'PROCESSING'
                WHEN d.attempts > 0 THEN 'FAILED' ELSE 'NEW' END
