-- How long the oldest due delivery of a lane has waited, in ms. ?1 and ?2: the lane.
SELECT (SELECT now FROM postrider_clock) - min(due_at)
FROM (SELECT min(due_at) AS due_at FROM postrider_delivery WHERE lane = ?1 AND event_key IS NULL AND NOT dead AND NOT held
      UNION ALL SELECT min(due_at) FROM postrider_delivery WHERE lane = ?2 AND event_key IS NOT NULL AND NOT dead AND NOT held)
WHERE due_at <= (SELECT now FROM postrider_clock)
