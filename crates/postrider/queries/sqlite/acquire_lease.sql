-- ?1 name, ?2 owner, ?3 token, ?4 lease in ms. A row: it is the caller's.
INSERT INTO postrider_lease AS l (name, owner, token, lock_time, lock_until)
SELECT ?1, ?2, ?3, now, now + ?4 FROM postrider_clock
-- Without a WHERE, the parser takes ON for a join's.
WHERE true
ON CONFLICT (name) DO UPDATE
SET owner = excluded.owner, token = excluded.token, lock_time = excluded.lock_time, lock_until = excluded.lock_until
WHERE l.lock_until <= excluded.lock_time
RETURNING true
