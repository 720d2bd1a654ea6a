-- The first due delivery of each lane, then the oldest of those. In ms; NULL: nothing is due. Lanes are few and deliveries
-- many: from one lane and place to the next by the index.
SELECT CAST(TIMESTAMPDIFF(MICROSECOND, min(first.due_at), UTC_TIMESTAMP(6)) DIV 1000 AS SIGNED)
FROM (SELECT lane, place, min(due_at) AS due_at FROM postrider_delivery GROUP BY lane, place) first
WHERE first.place < 2 AND first.due_at <= UTC_TIMESTAMP(6)
