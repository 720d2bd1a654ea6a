-- Begins a run. ? slot (NULL: outside of any), ? next slot, ? owner, ? token, ? lease in ms, ? name, ? slot, three times. A row:
-- it is the caller's. Two at once: the second waits for the row, looks again, and finds the first's lease.
UPDATE postrider_job
SET last_slot = coalesce(?, last_slot), next_slot = coalesce(?, next_slot),
    fired_at = UTC_TIMESTAMP(6), owner = ?, token = ?, lock_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE name = ?
  AND (token IS NULL OR lock_until <= UTC_TIMESTAMP(6))
  -- Later than the last one begun, and come: neither twice nor early, whatever anybody's clock says.
  AND (? IS NULL OR (? <= UTC_TIMESTAMP(6) AND (last_slot IS NULL OR ? > last_slot)))
