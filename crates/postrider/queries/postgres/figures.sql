-- $1 from which minute, $2 up to which.
SELECT minute, created, sent, consumed, failed, dead
FROM postrider_figure WHERE minute >= $1 AND minute < $2
ORDER BY minute
