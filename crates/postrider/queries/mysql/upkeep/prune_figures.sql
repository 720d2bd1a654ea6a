-- ? older than, in ms; ? limit.
DELETE FROM postrider_figure WHERE minute < TIMESTAMPDIFF(MINUTE, '1970-01-01', UTC_TIMESTAMP()) - ? DIV 60000 ORDER BY minute LIMIT ?
