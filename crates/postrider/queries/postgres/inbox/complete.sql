-- The last statement of a consumer's transaction. $1 consumer, $2 event id, $3 event seq, $4 delivery, $5 token, $6 keep
-- history. Returns a row only if the token holds and the inbox row of this transaction exists.
WITH done AS (
    DELETE FROM postrider_delivery d
    -- Lane and target identify one row, whatever the statistics say. Otherwise PostgreSQL might make a custom plan for each
    -- use.
    WHERE d.event_seq = $3 AND d.lane = $1 AND d.target = '' AND d.id = $4 AND d.token = $5
      AND EXISTS (SELECT 1 FROM postrider_inbox WHERE consumer = $1 AND event_id = $2)
      AND (d.event_key IS NULL OR NOT EXISTS (
          SELECT 1 FROM postrider_delivery p
          WHERE p.lane = d.lane AND p.event_key = d.event_key AND p.event_seq < d.event_seq AND p.place <> 3))
    RETURNING d.event_seq
), appended AS (
    INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at)
    SELECT d.event_seq, $1, 1 + coalesce(
               (SELECT max(c.attempt) FROM postrider_consumption c WHERE c.event_seq = d.event_seq AND c.consumer = $1), 0),
           true, now()
    FROM done d
    WHERE $6
), marked AS (
    INSERT INTO postrider_mark (event_seq) SELECT event_seq FROM done WHERE $6
)
SELECT event_seq FROM done
