-- ? from which minute, ? up to which.
SELECT minute, created, sent, consumed, failed, dead
FROM postrider_figure WHERE minute >= ? AND minute < ?
ORDER BY minute
