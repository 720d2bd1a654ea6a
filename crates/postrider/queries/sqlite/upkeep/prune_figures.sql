-- ?1 older than, in ms; ?2 limit.
DELETE FROM postrider_figure
WHERE minute IN (SELECT minute FROM postrider_figure WHERE minute < (SELECT now FROM postrider_clock) / 60000 - ?1 / 60000 ORDER BY minute LIMIT ?2)
