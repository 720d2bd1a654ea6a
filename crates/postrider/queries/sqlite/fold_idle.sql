-- Whether there is nothing to fold: by a reader, so that an idle roll-up waits for no writer.
SELECT NOT EXISTS (SELECT 1 FROM postrider_mark)
   AND NOT EXISTS (SELECT 1 FROM postrider_status WHERE expires_at IS NOT NULL AND expires_at <= (SELECT now FROM postrider_clock))
   AND NOT EXISTS (SELECT 1 FROM postrider_event WHERE seq > (SELECT folded_to FROM postrider_rollup WHERE id = 1))
