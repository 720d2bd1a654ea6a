-- Writes the last result of a check. A half hour in which a promise was broken once stays broken. ? promise; ? half hour; ? kept;
-- ? strained; ? result.
INSERT INTO postrider_promise (promise, half_hour, kept, strained, result, checked_at) VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE kept = kept AND VALUES(kept), strained = strained OR VALUES(strained), result = VALUES(result),
    checked_at = VALUES(checked_at)
