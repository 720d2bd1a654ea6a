-- The rights of the programs that use Postrider on MySQL or MariaDB, as roles. Run it as the migrator, which made the tables, or
-- as an administrator, after the migrations and again after each upgrade, in the database that has the tables. Then give the
-- roles to the users of your programs, and make them active:
--
--   GRANT postrider_producer TO shop;
--   SET DEFAULT ROLE postrider_producer FOR shop;    MariaDB; on MySQL TO shop
--
-- Roles belong to the whole server: use other names if databases of one server must be kept apart.
-- The migrator needs CREATE, ALTER, DROP, INDEX, REFERENCES, CREATE VIEW, SHOW VIEW, SELECT, INSERT, UPDATE and DELETE.

CREATE ROLE IF NOT EXISTS postrider_producer;
CREATE ROLE IF NOT EXISTS postrider_relay;
CREATE ROLE IF NOT EXISTS postrider_console;

-- A program that only inserts events with its own SQL needs no role, but INSERT on postrider_event, and SELECT (event_id) for ON
-- DUPLICATE KEY.

-- A service that calls `enqueue`, and a business operation with an idempotency key. It cannot change or remove an event.
GRANT SELECT, INSERT ON postrider_event TO postrider_producer;
-- For ON DUPLICATE KEY UPDATE, which MariaDB checks for every inserted column.
GRANT INSERT, SELECT (event_seq), UPDATE (event_seq, lane, shard, place, event_key, due_at) ON postrider_delivery TO postrider_producer;
GRANT INSERT, SELECT (attempt), UPDATE (event_seq, consumer, attempt) ON postrider_consumption TO postrider_producer;
GRANT INSERT ON postrider_mark TO postrider_producer;
GRANT SELECT ON postrider_subscription TO postrider_producer;
GRANT SELECT ON postrider_migrations TO postrider_producer;
GRANT SELECT, INSERT, UPDATE ON postrider_idempotency TO postrider_producer;

-- A service with consumers, and `postrider serve --role relay`: it delivers, keeps the statuses, runs bulk operations and jobs,
-- and prunes. It enqueues too. It has no access to tokens and sessions, can only add to the audit (a bulk operation that stops by
-- itself), and never changes a payload.
GRANT SELECT, INSERT, DELETE, UPDATE (waits_for) ON postrider_event TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_delivery TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_inbox TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_idempotency TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_lease TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_job TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_mark TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_status TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_lookup TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_figure TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_instance TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_alert TO postrider_relay;
GRANT SELECT ON postrider_webhook_secret TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_lane TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_repeat TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_promise TO postrider_relay;
GRANT SELECT, INSERT, DELETE, UPDATE (event_seq, consumer, attempt) ON postrider_consumption TO postrider_relay;
GRANT SELECT, INSERT ON postrider_subscription TO postrider_relay;
GRANT SELECT, UPDATE, DELETE ON postrider_operation TO postrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_operation_item TO postrider_relay;
GRANT INSERT ON postrider_audit TO postrider_relay;
GRANT SELECT, UPDATE ON postrider_rollup TO postrider_relay;
GRANT SELECT ON postrider_pause TO postrider_relay;
GRANT SELECT ON postrider_migrations TO postrider_relay;
GRANT SELECT ON postrider_outbox TO postrider_relay;
GRANT SELECT ON postrider_consume_log TO postrider_relay;

-- `postrider serve --role api`: it publishes, hands deliveries to pulling consumers, reads everything, and does what operators
-- ask for. It cannot remove events or their history, change a payload, or change what an audit
-- record says.
GRANT SELECT, INSERT, UPDATE (waits_for) ON postrider_event TO postrider_console;
GRANT SELECT, INSERT, UPDATE (event_seq, consumer, attempt) ON postrider_consumption TO postrider_console;
GRANT SELECT, UPDATE (consumer) ON postrider_inbox TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_delivery TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_subscription TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_pause TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_lease TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_session TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_lookup TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_instance TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_lane TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_promise TO postrider_console;
GRANT SELECT, UPDATE (consumer) ON postrider_repeat TO postrider_console;
GRANT SELECT, INSERT, UPDATE ON postrider_status TO postrider_console;
GRANT SELECT, INSERT, UPDATE ON postrider_operation TO postrider_console;
GRANT SELECT ON postrider_operation_item TO postrider_console;
GRANT SELECT, INSERT, UPDATE ON postrider_token TO postrider_console;
GRANT SELECT, INSERT ON postrider_mark TO postrider_console;
GRANT SELECT, INSERT ON postrider_audit TO postrider_console;
-- The sealer gives records their places. Pruning removes old ones, which the chain shows if it is done by hand.
GRANT DELETE, UPDATE (place, hash) ON postrider_audit TO postrider_console;
GRANT SELECT, UPDATE ON postrider_audit_chain TO postrider_console;
-- To lock it while a consumer is renamed.
GRANT SELECT, UPDATE (folded_to) ON postrider_rollup TO postrider_console;
GRANT SELECT ON postrider_job TO postrider_console;
GRANT SELECT ON postrider_figure TO postrider_console;
GRANT SELECT ON postrider_alert TO postrider_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_webhook_secret TO postrider_console;
GRANT SELECT ON postrider_idempotency TO postrider_console;
GRANT SELECT ON postrider_migrations TO postrider_console;
GRANT SELECT ON postrider_outbox TO postrider_console;
GRANT SELECT ON postrider_consume_log TO postrider_console;
