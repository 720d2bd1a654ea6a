-- The seq after which there may be events that are not folded yet. $1 how far back to look for late commits. There are none if
-- the sums of the seqs of all events and of the folded events are equal: two range sums cost a third of a check of each event.
SELECT CASE WHEN (SELECT sum(e.seq) FROM postrider_event e
                  WHERE e.seq > r.folded_to - $1 AND e.seq <= r.folded_to)
                 IS NOT DISTINCT FROM
                 (SELECT sum(s.event_seq) FROM postrider_status s
                  WHERE s.event_seq > r.folded_to - $1 AND s.event_seq <= r.folded_to AND s.status IS NOT NULL)
            THEN r.folded_to ELSE r.folded_to - $1 END
FROM postrider_rollup r WHERE r.id = 1
