SELECT lane,
       count(*) FILTER (WHERE place <> 3 AND token IS NULL AND attempts = 0),
       count(*) FILTER (WHERE place <> 3 AND token IS NOT NULL),
       count(*) FILTER (WHERE place <> 3 AND token IS NULL AND attempts > 0),
       count(*) FILTER (WHERE place = 3),
       count(*) FILTER (WHERE place = 2)
FROM postrider_delivery
GROUP BY lane
