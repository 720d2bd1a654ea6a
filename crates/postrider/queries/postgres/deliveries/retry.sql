-- Makes failed deliveries due again and releases the rest of their runs. $1 failures as JSON, $2 token, $3 keep history.
WITH input AS (
    SELECT * FROM json_to_recordset($1::json) AS i (seq bigint, id bigint, after_ms bigint, error text, code text)
), failed AS (
    UPDATE postrider_delivery d
    SET due_at = now() + i.after_ms * interval '1 ms', last_error = i.error,
        token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
    FROM input i
    -- The array keeps the plan on the index, whatever size the planner assumes for the input.
    WHERE d.event_seq = ANY (ARRAY(SELECT seq FROM input)) AND d.event_seq = i.seq AND d.id = i.id AND d.token = $2
    RETURNING d.id, d.event_seq, d.lane, d.event_key, CASE d.target WHEN '' THEN d.lane ELSE d.target END AS consumer, i.error, i.code
), released AS (
    UPDATE postrider_delivery d
    SET attempts = d.attempts - 1, token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
    FROM failed f
    WHERE d.token = $2 AND d.lane = f.lane AND d.event_key = f.event_key AND d.event_seq > f.event_seq
      AND d.id <> ALL (ARRAY(SELECT id FROM input))
), appended AS (
    INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, will_retry, consumed_at, error, code)
    SELECT f.event_seq, f.consumer, 1 + coalesce(
               (SELECT max(c.attempt) FROM postrider_consumption c WHERE c.event_seq = f.event_seq AND c.consumer = f.consumer), 0),
           false, true, now(), f.error, f.code
    FROM failed f
    WHERE $3
), marked AS (
    INSERT INTO postrider_mark (event_seq) SELECT event_seq FROM failed WHERE $3
)
SELECT event_seq, id FROM failed
