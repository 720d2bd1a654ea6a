-- Who hears a topic, and the version of the subscriptions that says so. $1 topic. No row: there is no version to ask for later.
SELECT a.version::bigint, h.lanes, h.remote
FROM postrider_audience a
CROSS JOIN (
    -- A consumer may hear both this topic and every topic, and all consumers of the broker share its lane.
    SELECT coalesce(array_agg(DISTINCT lane) FILTER (WHERE lane IS NOT NULL), '{}') AS lanes, coalesce(bool_or(remote), false) AS remote
    FROM postrider_subscription WHERE topic IN ($1, '*') AND heard
) h
