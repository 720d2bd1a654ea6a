-- Writes the last result of a check. A half hour in which a promise was broken once stays broken. ?1 promise; ?2 half hour; ?3 kept;
-- ?4 strained; ?5 result.
INSERT INTO postrider_promise (promise, half_hour, kept, strained, result, checked_at)
VALUES (?1, ?2, ?3, ?4, ?5, (SELECT now FROM postrider_clock))
ON CONFLICT (promise, half_hour) DO UPDATE
SET kept = kept AND excluded.kept, strained = strained OR excluded.strained, result = excluded.result, checked_at = excluded.checked_at
