-- Removes what is done and appends the successes. $1 ids, $2 token.
WITH settled AS (
    DELETE FROM postrider_delivery d
    WHERE d.id = ANY ($1) AND d.token = $2
      AND (d.event_key IS NULL OR NOT EXISTS (
          SELECT 1 FROM postrider_delivery p
          WHERE p.lane = d.lane AND p.event_key = d.event_key AND p.event_seq < d.event_seq
            AND NOT p.dead AND NOT (p.id = ANY ($1) AND p.token = $2)))
    RETURNING d.id, d.event_seq, CASE d.target WHEN '' THEN d.lane ELSE d.target END AS consumer
), appended AS (
    INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at)
    SELECT s.event_seq, s.consumer, 1 + coalesce(
               (SELECT max(c.attempt) FROM postrider_consumption c WHERE c.event_seq = s.event_seq AND c.consumer = s.consumer), 0),
           true, now()
    FROM settled s
)
SELECT id FROM settled
