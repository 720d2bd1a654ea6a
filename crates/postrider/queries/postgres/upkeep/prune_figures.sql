-- $1 older than, in ms; $2 limit.
DELETE FROM postrider_figure
WHERE minute IN (SELECT minute FROM postrider_figure WHERE minute < floor(extract(epoch FROM now()) / 60)::bigint - $1 / 60000 ORDER BY minute LIMIT $2)
