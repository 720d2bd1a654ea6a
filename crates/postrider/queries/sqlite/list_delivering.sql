-- Which events have a delivery that stands so. ?1 event seqs as JSON, ?2 how, ?3 whose; NULL: anybody's.
SELECT d.event_seq FROM json_each(?1) i CROSS JOIN postrider_delivery d ON d.event_seq = i.value
WHERE (?3 IS NULL OR ?3 IN (d.lane, d.target))
  AND ?2 = CASE WHEN d.dead THEN 'DEAD' WHEN d.token IS NOT NULL THEN 'PROCESSING'
                WHEN d.attempts > 0 THEN 'FAILED' ELSE 'NEW' END
