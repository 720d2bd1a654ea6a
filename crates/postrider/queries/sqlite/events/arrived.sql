-- Whether an event from a plain INSERT waits for the router.
SELECT EXISTS (SELECT 1 FROM postrider_event INDEXED BY postrider_event_waits WHERE waits_for = '')
