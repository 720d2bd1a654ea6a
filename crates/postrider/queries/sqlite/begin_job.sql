-- Begins a run. ?1 name, ?2 slot (NULL: outside of any), ?3 next slot, ?4 token, ?5 owner, ?6 lease in ms. A row: it is the
-- caller's.
UPDATE postrider_job
SET last_slot = coalesce(?2, last_slot), next_slot = coalesce(?3, next_slot),
    fired_at = (SELECT now FROM postrider_clock), owner = ?5, token = ?4,
    lock_until = (SELECT now FROM postrider_clock) + ?6
WHERE name = ?1
  AND (token IS NULL OR lock_until <= (SELECT now FROM postrider_clock))
  -- Later than the last one begun, and come: neither twice nor early, whatever anybody's clock says.
  AND (?2 IS NULL OR (?2 <= (SELECT now FROM postrider_clock) AND (last_slot IS NULL OR ?2 > last_slot)))
RETURNING true
