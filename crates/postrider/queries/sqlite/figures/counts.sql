SELECT lane,
       count(*) FILTER (WHERE NOT dead AND token IS NULL AND attempts = 0),
       count(*) FILTER (WHERE NOT dead AND token IS NOT NULL),
       count(*) FILTER (WHERE NOT dead AND token IS NULL AND attempts > 0),
       count(*) FILTER (WHERE dead),
       count(*) FILTER (WHERE held)
FROM postrider_delivery
GROUP BY lane
