-- After which seq there may be events that the roll-up has not seen. ? how far back it looks for late ones . There
-- are none where the numbers of the events and those of the events that it has seen come to the same: two ranges, added up,
-- for a third of what looking for each event costs.
SELECT CASE WHEN (SELECT sum(e.seq) FROM postrider_event e FORCE INDEX (PRIMARY)
                  WHERE e.seq > r.folded_to - b.look_back AND e.seq <= r.folded_to)
                 <=>
                 (SELECT sum(s.event_seq) FROM postrider_status s FORCE INDEX (PRIMARY)
                  WHERE s.event_seq > r.folded_to - b.look_back AND s.event_seq <= r.folded_to AND s.status IS NOT NULL)
            THEN r.folded_to ELSE r.folded_to - b.look_back END
FROM postrider_rollup r JOIN (SELECT ? AS look_back) b WHERE r.id = 1
