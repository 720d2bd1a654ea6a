-- The version of the subscriptions a second time, where producers ask for it: as the start value of a sequence from which nothing
-- is ever drawn. Like all that the catalogs hold it changes with the transaction that changes it, and every session has it in
-- memory: to read the row in postrider_audience took 5 µs of every event. docs/decisions/0002-routing-without-triggers.md.
CREATE SEQUENCE postrider_audience_version;
GRANT SELECT ON SEQUENCE postrider_audience_version TO PUBLIC;
UPDATE postrider_audience SET version = '1';

-- With the rights of its owner, which ALTER SEQUENCE takes; so it looks for nothing where the caller might have put something else.
CREATE OR REPLACE FUNCTION postrider_audience_changes() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Drawn, not counted: after a rollback or a restored backup a counter comes to the same number with other subscriptions.
    drawn bigint := 1 + ('x' || md5(random()::text || clock_timestamp() || txid_current()))::bit(62)::bigint;
BEGIN
    -- Both: the row says which version a snapshot sees. It comes first, so that changes wait for each other there.
    EXECUTE format('UPDATE %I.postrider_audience SET version = %L', TG_TABLE_SCHEMA, drawn);
    EXECUTE format('ALTER SEQUENCE %I.postrider_audience_version START WITH %s', TG_TABLE_SCHEMA, drawn);
    RETURN NULL;
END $$;
