-- Sessions that have kept a snapshot of this database open for longer than $1 ms: dead rows cannot be removed meanwhile.
SELECT holder, (extract(epoch FROM now() - since) * 1000)::bigint
FROM (
    -- Without its current statement: a holder keeps one name, and is reported once.
    SELECT format('session %s of %s (%s)', pid, usename, coalesce(nullif(application_name, ''), 'no application name')) AS holder,
           xact_start AS since
    FROM pg_stat_activity
    WHERE backend_xmin IS NOT NULL AND datname = current_database() AND pid <> pg_backend_pid()
    UNION ALL
    -- A prepared transaction that was never finished. It survives restarts.
    SELECT format('prepared transaction %s of %s', gid, owner), prepared
    FROM pg_prepared_xacts
    WHERE database = current_database()
) held
WHERE since < now() - $1 * interval '1 ms'
