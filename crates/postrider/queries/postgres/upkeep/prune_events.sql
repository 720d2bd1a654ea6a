-- Removes the finished ones of the locked events, with their attempts. $1 event seqs. A separate statement, so that it sees
-- deliveries that were committed before the lock was granted.
WITH finished AS MATERIALIZED (
    SELECT seq FROM postrider_event e
    WHERE seq = ANY ($1) AND waits_for IS NULL
      AND NOT EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = e.seq)
), attempts AS (
    DELETE FROM postrider_consumption WHERE event_seq = ANY (ARRAY(SELECT seq FROM finished))
), statuses AS (
    DELETE FROM postrider_status WHERE event_seq = ANY (ARRAY(SELECT seq FROM finished))
)
DELETE FROM postrider_event WHERE seq = ANY (ARRAY(SELECT seq FROM finished))
RETURNING seq
