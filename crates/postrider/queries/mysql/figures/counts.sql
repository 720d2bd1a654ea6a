SELECT lane,
       count(CASE WHEN place <> 3 AND token IS NULL AND attempts = 0 THEN 1 END),
       count(CASE WHEN place <> 3 AND token IS NOT NULL THEN 1 END),
       count(CASE WHEN place <> 3 AND token IS NULL AND attempts > 0 THEN 1 END),
       count(CASE WHEN place = 3 THEN 1 END),
       count(CASE WHEN place = 2 THEN 1 END)
FROM postrider_delivery
GROUP BY lane
