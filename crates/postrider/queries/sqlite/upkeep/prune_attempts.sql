-- Removes the attempts of the events that prune_events.sql removed. ?1 after which seq, ?2 up to which.
DELETE FROM postrider_consumption
WHERE event_seq > ?1 AND event_seq <= ?2
  AND NOT EXISTS (SELECT 1 FROM postrider_event e WHERE e.seq = event_seq)
