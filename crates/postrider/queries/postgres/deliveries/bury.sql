-- Marks deliveries as dead and releases the rest of their runs. $1 burials as JSON, $2 token, $3 keep history.
WITH input AS (
    SELECT * FROM json_to_recordset($1::json) AS i (seq bigint, id bigint, tried boolean, error text, code text)
), buried AS (
    UPDATE postrider_delivery d
    SET place = 3, skipped_at = NULL, last_error = i.error, attempts = CASE WHEN i.tried THEN d.attempts ELSE d.attempts - 1 END,
        token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
    FROM input i
    -- The array keeps the plan on the index, whatever size the planner assumes for the input.
    WHERE d.event_seq = ANY (ARRAY(SELECT seq FROM input)) AND d.event_seq = i.seq AND d.id = i.id AND d.token = $2
    RETURNING d.id, d.event_seq, d.lane, d.event_key, CASE d.target WHEN '' THEN d.lane ELSE d.target END AS consumer, i.error, i.code
), released AS (
    UPDATE postrider_delivery d
    SET attempts = d.attempts - 1, token = NULL, lock_owner = NULL, lock_time = NULL, lock_until = NULL
    FROM buried b
    WHERE d.token = $2 AND d.lane = b.lane AND d.event_key = b.event_key AND d.event_seq > b.event_seq
      AND d.id <> ALL (ARRAY(SELECT id FROM input))
), appended AS (
    INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at, error, code)
    SELECT b.event_seq, b.consumer, 1 + coalesce(
               (SELECT max(c.attempt) FROM postrider_consumption c WHERE c.event_seq = b.event_seq AND c.consumer = b.consumer), 0),
           false, now(), b.error, b.code
    FROM buried b
    WHERE $3
), marked AS (
    INSERT INTO postrider_mark (event_seq) SELECT event_seq FROM buried WHERE $3
)
SELECT event_seq, id FROM buried
