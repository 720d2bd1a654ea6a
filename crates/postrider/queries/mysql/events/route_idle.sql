-- Whether there is anything to route. Locks nothing: the router rarely has work, and must not block other transactions without
-- it.
SELECT NOT EXISTS (SELECT 1 FROM postrider_event WHERE waits_for = '')
   AND NOT EXISTS (SELECT 1 FROM postrider_subscription s JOIN postrider_event e ON e.waits_for = s.topic
                   WHERE s.topic <> '*' AND s.enabled AND NOT s.removed)
   AND NOT (EXISTS (SELECT 1 FROM postrider_subscription WHERE topic = '*' AND enabled AND NOT removed)
            AND EXISTS (SELECT 1 FROM postrider_event WHERE waits_for > ''))
