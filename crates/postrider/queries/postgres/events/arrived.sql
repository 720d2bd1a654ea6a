-- Whether an event from a plain INSERT waits for the router. By range and order, like route_lock.sql: the planner can use no
-- other index.
SELECT EXISTS (SELECT FROM postrider_event WHERE waits_for <= '' ORDER BY waits_for, seq LIMIT 1)
