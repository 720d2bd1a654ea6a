-- Whether there is nothing to fold: asked without a lock, so that an idle roll-up writes nothing.
SELECT NOT EXISTS (SELECT 1 FROM postrider_mark)
   AND NOT EXISTS (SELECT 1 FROM postrider_status WHERE expires_at <= UTC_TIMESTAMP(6))
   AND NOT EXISTS (SELECT 1 FROM postrider_event WHERE seq > (SELECT folded_to FROM postrider_rollup WHERE id = 1))
