-- Writes the last result of a check. A half hour in which a promise was broken once stays broken. $1 promise; $2 half hour; $3 kept;
-- $4 strained; $5 result.
INSERT INTO postrider_promise AS p (promise, half_hour, kept, strained, result, checked_at) VALUES ($1, $2, $3, $4, $5, now())
ON CONFLICT (promise, half_hour) DO UPDATE
SET kept = p.kept AND excluded.kept, strained = p.strained OR excluded.strained, result = excluded.result,
    checked_at = excluded.checked_at
