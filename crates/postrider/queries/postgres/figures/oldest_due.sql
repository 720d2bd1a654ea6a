-- How long the oldest due delivery of a lane has waited, in ms. $1 and $2: the lane.
SELECT (extract(epoch FROM now() - min(due_at)) * 1000)::bigint
FROM (SELECT min(due_at) AS due_at FROM postrider_delivery WHERE lane = $1 AND place = 0
      UNION ALL SELECT min(due_at) FROM postrider_delivery WHERE lane = $2 AND place = 1) d
WHERE due_at <= now()
