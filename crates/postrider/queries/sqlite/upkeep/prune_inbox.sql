-- ?1 older than, in ms; ?2 limit.
DELETE FROM postrider_inbox
WHERE rowid IN (
    SELECT rowid FROM postrider_inbox WHERE received_at < (SELECT now FROM postrider_clock) - ?1
    ORDER BY received_at LIMIT ?2 + 0)
