-- The seq after which there may be events that are not folded yet. ? how far back to look for late commits. There are none if
-- the sums of the seqs of all events and of the folded events are equal: two range sums cost a third of a check of each event.
SELECT CASE WHEN (SELECT sum(e.seq) FROM postrider_event e FORCE INDEX (PRIMARY)
                  WHERE e.seq > r.folded_to - b.look_back AND e.seq <= r.folded_to)
                 <=>
                 (SELECT sum(s.event_seq) FROM postrider_status s FORCE INDEX (PRIMARY)
                  WHERE s.event_seq > r.folded_to - b.look_back AND s.event_seq <= r.folded_to AND s.status IS NOT NULL)
            THEN r.folded_to ELSE r.folded_to - b.look_back END
FROM postrider_rollup r JOIN (SELECT ? AS look_back) b WHERE r.id = 1
