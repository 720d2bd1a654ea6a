-- Appends a report under the next number, unless it is known. $1 event seq, $2 consumer, $3 success, $4 will retry, $5 consumed
-- at, $6 error, $7 code, $8 callback id. Returns the attempt's number and whether it is new.
WITH known AS (
    SELECT attempt FROM postrider_consumption
    WHERE event_seq = $1 AND consumer = $2 AND callback_id = $8
), appended AS (
    INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, will_retry, consumed_at, error, code, callback_id)
    SELECT $1, $2, 1 + max(attempt), $3, $4, coalesce($5, now()), $6, $7, $8
    FROM postrider_consumption
    WHERE event_seq = $1 AND consumer = $2
    HAVING NOT EXISTS (SELECT 1 FROM known)
    RETURNING attempt
), marked AS (
    INSERT INTO postrider_mark (event_seq) SELECT $1 FROM appended
)
SELECT attempt, true FROM appended UNION ALL SELECT attempt, false FROM known
