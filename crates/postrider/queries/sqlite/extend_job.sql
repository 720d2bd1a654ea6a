-- ?1 name, ?2 token, ?3 lease in ms.
UPDATE postrider_job SET lock_until = (SELECT now FROM postrider_clock) + ?3 WHERE name = ?1 AND token = ?2
