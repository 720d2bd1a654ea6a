-- For tests: moves stored times back by $1 ms.
WITH alerts AS (
    UPDATE postrider_alert SET since = since - $1 * interval '1 ms', over_at = over_at - $1 * interval '1 ms'
)
UPDATE postrider_instance SET started_at = started_at - $1 * interval '1 ms', seen_at = seen_at - $1 * interval '1 ms'
