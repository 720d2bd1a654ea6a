-- The lanes of a topic, and the version of the subscriptions. $1 topic. Returns no row if there is no version to compare later.
SELECT a.version::bigint, h.lanes, h.remote
FROM postrider_audience a
CROSS JOIN (
    -- DISTINCT, because a consumer may subscribe to both this topic and every topic, and all consumers behind the broker share
    -- its lane.
    SELECT coalesce(array_agg(DISTINCT lane) FILTER (WHERE lane IS NOT NULL), '{}') AS lanes, coalesce(bool_or(remote), false) AS remote
    FROM postrider_subscription WHERE topic IN ($1, '*') AND heard
) h
