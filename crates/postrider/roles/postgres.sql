-- The rights of the programs that use Postrider on PostgreSQL, as roles without a login. Run it as the owner of the tables (the
-- migrator), after the migrations and again after each upgrade, in the schema that has the tables. Then give the roles to the
-- logins of your programs:
--
--   GRANT postrider_producer TO shop;
--
-- The migrator is the owner of the tables: it alone may change them.

DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['postrider_producer', 'postrider_relay', 'postrider_console'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
    END LOOP;
END
$$;

-- A program that only inserts events with its own SQL needs no role, but INSERT on postrider_event, and SELECT (event_id) for ON
-- CONFLICT.

-- A service that calls `enqueue`, and a business operation with an idempotency key. It cannot change or remove what is written.
GRANT SELECT, INSERT ON postrider_event TO postrider_producer;
GRANT INSERT ON postrider_delivery, postrider_consumption, postrider_mark TO postrider_producer;
-- For ON CONFLICT and RETURNING.
GRANT SELECT (event_seq, lane, target) ON postrider_delivery TO postrider_producer;
GRANT SELECT ON postrider_subscription, postrider_audience, postrider_audience_version, postrider_migrations TO postrider_producer;
GRANT SELECT, INSERT, UPDATE ON postrider_idempotency TO postrider_producer;

-- A service with consumers, and `postrider serve --role relay`: it delivers, keeps the statuses, runs bulk operations and jobs,
-- and prunes. It enqueues too. It has no access to tokens and sessions, can only add to the audit (a bulk operation that stops by
-- itself), and never changes a payload.
GRANT SELECT, INSERT, DELETE, UPDATE (waits_for) ON postrider_event TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_delivery, postrider_inbox, postrider_idempotency, postrider_lease,
    postrider_job, postrider_mark, postrider_status, postrider_lookup, postrider_figure, postrider_instance, postrider_alert,
    postrider_lane, postrider_repeat, postrider_promise, postrider_operation_item TO postrider_relay;
GRANT INSERT ON postrider_audit TO postrider_relay;
-- UPDATE of one column to lock the row of a reporting consumer.
GRANT SELECT, INSERT, DELETE, UPDATE (attempt) ON postrider_consumption TO postrider_relay;
GRANT SELECT, INSERT ON postrider_subscription TO postrider_relay;
GRANT SELECT, UPDATE, DELETE ON postrider_operation TO postrider_relay;
GRANT SELECT, UPDATE ON postrider_rollup TO postrider_relay;
GRANT SELECT ON postrider_pause, postrider_audience, postrider_audience_version, postrider_migrations, postrider_outbox,
    postrider_consume_log, postrider_webhook_secret TO postrider_relay;

-- `postrider serve --role api`: it publishes, hands deliveries to pulling consumers, reads everything, and does what operators
-- ask for. It cannot remove events or their history, change a payload, or change what an audit
-- record says.
GRANT SELECT, INSERT, UPDATE (waits_for) ON postrider_event TO postrider_console;
GRANT SELECT, INSERT, UPDATE (consumer) ON postrider_consumption TO postrider_console;
GRANT SELECT, UPDATE (consumer) ON postrider_inbox, postrider_repeat TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_delivery, postrider_subscription, postrider_pause, postrider_lease,
    postrider_session, postrider_lookup, postrider_instance, postrider_lane, postrider_promise,
    postrider_webhook_secret TO postrider_console;
GRANT SELECT, INSERT, UPDATE ON postrider_status, postrider_operation, postrider_token TO postrider_console;
GRANT SELECT, INSERT ON postrider_mark, postrider_audit TO postrider_console;
-- The sealer gives records their places. Pruning removes old ones, which the chain shows if it is done by hand.
GRANT DELETE, UPDATE (place, hash) ON postrider_audit TO postrider_console;
GRANT SELECT, UPDATE ON postrider_audit_chain TO postrider_console;
-- To lock it while a consumer is renamed.
GRANT SELECT, UPDATE (folded_to) ON postrider_rollup TO postrider_console;
GRANT SELECT ON postrider_job, postrider_figure, postrider_alert, postrider_idempotency, postrider_audience, postrider_audience_version,
    postrider_migrations, postrider_outbox, postrider_consume_log, postrider_operation_item TO postrider_console;
