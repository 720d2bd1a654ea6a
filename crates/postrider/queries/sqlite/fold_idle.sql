-- Whether there is nothing to fold. ?1 how far back new events are looked for.
SELECT NOT EXISTS (SELECT 1 FROM postrider_mark)
   AND NOT EXISTS (SELECT 1 FROM postrider_status WHERE expires_at IS NOT NULL AND expires_at <= (SELECT now FROM postrider_clock))
   AND NOT EXISTS (SELECT 1 FROM postrider_event e
                   WHERE e.seq > (SELECT folded_to FROM postrider_rollup) - ?1
                     AND NOT EXISTS (SELECT 1 FROM postrider_status s WHERE s.event_seq = e.seq AND s.status IS NOT NULL))
