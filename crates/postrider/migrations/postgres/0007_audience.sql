-- The version of the subscriptions. A producer remembers who hears its topics, and asks with each event only whether that still
-- holds: docs/decisions/0002-routing-without-triggers.md. One row.
CREATE TABLE postrider_audience (
    version text COLLATE "C" NOT NULL
);
INSERT INTO postrider_audience (version) VALUES (md5(random()::text || clock_timestamp()));

CREATE FUNCTION postrider_audience_changes() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    -- Drawn, not counted: after a rollback or a restored backup a counter comes to the same number with other subscriptions.
    UPDATE postrider_audience SET version = md5(random()::text || clock_timestamp() || txid_current());
    RETURN NULL;
END $$;

-- Triggers, so that a change made by hand counts as well. For each row, not for each statement: registering a consumer that is
-- known already writes nothing and must not cost producers what they remember.
CREATE TRIGGER postrider_audience_changes AFTER INSERT OR UPDATE OR DELETE ON postrider_subscription
    FOR EACH ROW EXECUTE FUNCTION postrider_audience_changes();
CREATE TRIGGER postrider_audience_ends AFTER TRUNCATE ON postrider_subscription
    FOR EACH STATEMENT EXECUTE FUNCTION postrider_audience_changes();
