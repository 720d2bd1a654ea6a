//! MySQL and MariaDB: plans on a large table, locks that no statement may wait for, deadlocks, isolation levels, and
//! a schema that another tool has created completely or in part. The two servers show locks and plans in different
//! tables, so each has its own queries.
#![allow(clippy::print_stderr, reason = "prints measurements")]

use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postrider::prelude::*;
use postrider::store::mysql::{MySqlStore, migrations};
use postrider::store::{Claim, Completed, Completion, DeadHead, Failed, History, Lease, Prunable, Prune, Receipt};
use postrider::{Draft, Enqueued, Error, Outbox, Subscription, Via};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Connection, Row};

use crate::pool::{MARK, MARKS};

macro_rules! sql {
    ($verb:literal) => {
        include_str!(concat!("../../queries/mysql/", $verb, ".sql"))
    };
}

/// A database that is dropped when the test has passed.
struct Database {
    server: String,
    name: String,
}

impl Database {
    async fn empty() -> Self {
        let server = std::env::var("POSTRIDER_TEST_MYSQL")
            .expect("POSTRIDER_TEST_MYSQL is not set: run `make services` and `eval \"$(scripts/services urls)\"`");
        let name = format!("it_{}", uuid::Uuid::new_v4().simple());
        let database = Self { server, name };
        database.at_server(format!("CREATE DATABASE {}", database.name)).await;
        database
    }

    async fn migrated() -> (Self, MySqlStore) {
        let database = Self::empty().await;
        let store = MySqlStore::connect(&database.url()).await.expect("connects");
        store.migrate().await.expect("migrates");
        (database, store)
    }

    fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').expect("the URL names a database");
        format!("{server}/{}", self.name)
    }

    async fn connect(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url()).await.expect("connects")
    }

    async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&mut self.connect().await).await.expect("the server obeys");
    }

    async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.expect("an answer")
    }

    async fn at_server(&self, sql: String) {
        let mut conn = MySqlConnection::connect(&self.server).await.expect("the server answers");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("the server obeys");
    }

    async fn drop(self) {
        self.at_server(format!("DROP DATABASE {}", self.name)).await;
    }
}

fn event(id: impl Into<String>) -> Draft {
    Draft::text("order.paid", "text/plain", "7").event_id(id)
}

async fn a_consumer(store: &MySqlStore) -> Outbox<MySqlStore> {
    store.register(&Subscription::new("order.paid", "coupon", Via::Local)).await.expect("registers");
    Outbox::new(store.clone())
}

/// 200,000 deliveries of one lane: a third without a key; dead, delayed, held and leased ones in front of what is due.
const LARGE: &str = "
    SET SESSION max_recursive_iterations = 1000000;
    INSERT INTO postrider_event (event_id, topic, payload, event_key, waits_for)
    WITH RECURSIVE ten (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM ten WHERE n < 9)
    SELECT concat('e', n), 'order.paid', '{}', CASE WHEN n % 3 > 0 THEN concat('key-', n % 5000) END, NULL
    FROM (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n + 100000 * f.n + 1 AS n
          FROM ten a, ten b, ten c, ten d, ten e, (SELECT 0 AS n UNION ALL SELECT 1) f) numbers
    ORDER BY n;
    INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at, token, lock_time, lock_until, attempts)
    SELECT seq, 'coupon', seq % 64,
           CASE WHEN seq <= 20000 THEN 3 WHEN seq <= 40000 AND event_key IS NOT NULL THEN 2 WHEN event_key IS NULL THEN 0 ELSE 1 END,
           event_key,
           UTC_TIMESTAMP(6) + INTERVAL (CASE WHEN seq BETWEEN 40001 AND 100000 THEN 1 ELSE -1 END) HOUR,
           CASE WHEN seq BETWEEN 100001 AND 101000 THEN 1 END,
           CASE WHEN seq BETWEEN 100001 AND 101000 THEN UTC_TIMESTAMP(6) END,
           CASE WHEN seq BETWEEN 100001 AND 101000 THEN UTC_TIMESTAMP(6) + INTERVAL 1 HOUR END, 0
    FROM postrider_event ORDER BY seq;
    INSERT INTO postrider_inbox (consumer, event_id, topic) SELECT 'coupon', event_id, topic FROM postrider_event;
    INSERT INTO postrider_status (event_seq, status, expires_at)
    SELECT seq, CASE seq % 10 WHEN 0 THEN 'FAILED' ELSE 'CONSUMED' END, CASE seq % 10 WHEN 0 THEN UTC_TIMESTAMP(6) END FROM postrider_event;
    INSERT INTO postrider_lookup (hash, event_seq) SELECT seq % 10, seq FROM postrider_event;
    INSERT INTO postrider_mark (event_seq) SELECT seq FROM postrider_event;
    INSERT INTO postrider_operation_item (operation, event_seq, event_id, outcome)
    SELECT 1, seq, event_id, CASE WHEN seq < 100000 THEN 2 WHEN seq % 2 = 0 THEN 1 ELSE 0 END FROM postrider_event";

/// A statement with values in place of its parameters.
fn with_values(sql: &str, values: &[&str]) -> String {
    let code: String =
        sql.lines().filter(|line| !line.trim_start().starts_with("--")).map(|l| format!("{l}\n")).collect();
    let mut parts = code.split('?');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    let mut values = values.iter();
    for part in parts {
        whole += values.next().unwrap_or_else(|| panic!("too few values for {sql}"));
        whole += part;
    }
    assert!(values.next().is_none(), "too many values for {sql}");
    whole
}

#[derive(Debug)]
struct Step {
    table: String,
    access: String,
    key: String,
    extra: String,
}

async fn plan(conn: &mut MySqlConnection, sql: &str, values: &[&str]) -> Vec<Step> {
    let explain = format!("EXPLAIN {}", with_values(sql, values));
    let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(conn).await.expect("explains");
    let text =
        |row: &MySqlRow, column| row.try_get_unchecked::<Option<String>, _>(column).expect("text").unwrap_or_default();
    rows.iter()
        .map(|row| Step {
            table: text(row, "table"),
            access: text(row, "type"),
            key: text(row, "key"),
            extra: text(row, "Extra"),
        })
        .collect()
}

/// F30, B.5: claims, router and lists use an index and never sort, whatever waits, is leased, delayed, held or dead;
/// with and without statistics.
#[tokio::test]
async fn mysql_goes_by_index_without_a_sort() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    // MySQL has another name for the limit, and needs none here.
    for statement in LARGE.split(';').skip(1) {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut conn).await.expect("fills");
    }
    let all = "18446744073709551615";
    let ids = format!("'[{}]'", (150_000..150_500).map(|id| id.to_string()).collect::<Vec<_>>().join(","));
    let keys = r#"'[{"key":"key-1","lane":"coupon","upto":150000,"seq":1},{"key":"key-2","lane":"coupon","upto":150000,"seq":1}]'"#;
    let all_seqs = "9223372036854775807";
    let filter = r#"'{"topic":"order.paid"}'"#;
    let statements: &[(&str, &[&str], &str, &str)] = &[
        (sql!("deliveries/claim"), &["'coupon'", all, "500", "1", "'me'", "30000"], "c", "postrider_delivery_due"),
        (sql!("deliveries/claim"), &["'coupon'", all, "500", "1", "'me'", "30000"], "d", "PRIMARY"),
        (sql!("deliveries/claim_fetch"), &["1000", "'coupon'", "1", "500"], "d", "postrider_delivery_due"),
        (sql!("deliveries/claim_fetch"), &["1000", "'coupon'", "1", "500"], "e", "PRIMARY"),
        (
            sql!("deliveries/claim_keyed_window"),
            &["'coupon'", all, "2000"],
            "postrider_delivery",
            "postrider_delivery_due",
        ),
        (sql!("deliveries/claim_keyed_runs"), &[keys, "'coupon'", "1"], "d", "postrider_delivery_key"),
        (sql!("deliveries/claim_keyed_lock"), &[&ids], "d", "PRIMARY"),
        (sql!("deliveries/claim_keyed"), &[&ids, "1", "'me'", "30000"], "d", "PRIMARY"),
        (sql!("deliveries/claim_keyed_fetch"), &["1000", &ids, "1"], "d", "PRIMARY"),
        (sql!("deliveries/settle"), &[&ids, "1"], "d", "PRIMARY"),
        (sql!("deliveries/held_by"), &[&ids, "1"], "d", "PRIMARY"),
        (sql!("deliveries/earlier_of_keys"), &[keys], "d", "postrider_delivery_key"),
        (sql!("deliveries/followers"), &[keys, "1"], "d", "postrider_delivery_key"),
        (sql!("events/route_lock"), &["100"], "postrider_event", "postrider_event_waits"),
        (sql!("events/route_lock_subscribed"), &[r#"'["order.paid"]'"#, "100"], "e", "postrider_event_waits"),
        (sql!("events/route_lock_all"), &["100"], "postrider_event", "postrider_event_waits"),
        (sql!("upkeep/prune_stretch"), &["1000", "0", "1000"], "postrider_event", "PRIMARY"),
        (sql!("upkeep/prune_inbox"), &["1000", "1000"], "postrider_inbox", "postrider_inbox_received"),
        (sql!("upkeep/prune_inbox"), &["1000", "1000"], "i", "PRIMARY"),
        (sql!("deliveries/next_due"), &["'coupon'", "'coupon'"], "postrider_delivery", "postrider_delivery_due"),
        (sql!("figures/oldest_due"), &["'coupon'", "'coupon'"], "postrider_delivery", "postrider_delivery_due"),
        (sql!("deliveries/sight"), &[r#"'["e1","e2"]'"#], "e", "postrider_event_id"),
        (sql!("lists/list_lookup"), &["0", all_seqs, "7", "200"], "postrider_lookup", "PRIMARY"),
        (
            sql!("lists/list_status"),
            &["0", all_seqs, "'CONSUMED'", "200"],
            "postrider_status",
            "postrider_status_status",
        ),
        (sql!("lists/list_events"), &["0", all_seqs, "200"], "postrider_event", "PRIMARY"),
        (sql!("lists/list_unfolded_after"), &["5000"], "e", "PRIMARY"),
        (sql!("lists/list_unfolded_after"), &["5000"], "s", "PRIMARY"),
        (sql!("lists/list_unfolded"), &["199000", all_seqs, "200"], "e", "PRIMARY"),
        (sql!("lists/list_among_lookup"), &[&ids, "7"], "l", "PRIMARY"),
        (sql!("lists/list_among_status"), &[&ids, "'CONSUMED'"], "s", "PRIMARY"),
        (sql!("lists/list_delivering"), &[&ids, "NULL", "'DEAD'"], "d", "postrider_delivery_event"),
        (sql!("lists/list_match"), &[&ids, filter], "e", "PRIMARY"),
        (sql!("lists/search_ids"), &["'e150'", "'e151'", "20"], "postrider_event", "postrider_event_id"),
        (sql!("lists/list_ids"), &[r#"'["e150","e151"]'"#], "e", "postrider_event_id"),
        (
            "SELECT event_seq, event_id FROM postrider_operation_item FORCE INDEX (postrider_operation_item_outcome) WHERE operation = ? AND outcome = ? ORDER BY event_seq DESC LIMIT ?",
            &["1", "0", "200"],
            "postrider_operation_item",
            "postrider_operation_item_outcome",
        ),
        (
            "SELECT event_seq, event_id, step, watched FROM postrider_operation_item FORCE INDEX (postrider_operation_item_outcome) WHERE operation = ? AND outcome = ? AND event_seq > ? ORDER BY event_seq LIMIT ?",
            &["1", "1", "150000", "500"],
            "postrider_operation_item",
            "postrider_operation_item_outcome",
        ),
        (sql!("events/records"), &[&ids], "e", "PRIMARY"),
        (sql!("upkeep/fold_marks"), &["500"], "postrider_mark", "PRIMARY"),
        (sql!("upkeep/fold_expiring"), &["500"], "postrider_status", "postrider_status_expires"),
        (sql!("upkeep/fold_new"), &["199000", "200000", "500"], "e", "PRIMARY"),
    ];
    for analysed in [false, true] {
        if analysed {
            let analyse = "ANALYZE TABLE postrider_event, postrider_delivery, postrider_inbox, postrider_status, \
                postrider_lookup, postrider_mark, postrider_operation_item";
            sqlx::raw_sql(analyse).execute(&mut conn).await.expect("analyses");
        }
        for (sql, values, table, key) in statements {
            let steps = plan(&mut conn, sql, values).await;
            let step = steps.iter().find(|step| step.table == *table).unwrap_or_else(|| panic!("{table}: {steps:#?}"));
            assert_eq!(step.key, *key, "{sql}\n{steps:#?}");
            let whole = step.access == "ALL" || (step.access == "index" && !step.extra.contains("for group-by"));
            assert!(!whole, "{sql}\n{steps:#?}");
            assert!(!steps.iter().any(|step| step.extra.contains("filesort")), "{sql}\n{steps:#?}");
        }
    }
    let lanes = plan(&mut conn, "SELECT min(lane) FROM postrider_delivery WHERE lane > ?", &["''"]).await;
    assert!(lanes[0].extra.contains("optimized away"), "{lanes:#?}");
    // It reads little more than it takes: the thousand leased rows, then its own, twice.
    let mut tx = conn.begin().await.expect("begins");
    let read = "SELECT CAST(sum(variable_value) AS SIGNED) FROM information_schema.session_status WHERE variable_name LIKE 'HANDLER_READ%'";
    let read_mysql = "SELECT CAST(sum(variable_value) AS SIGNED) FROM performance_schema.session_status WHERE variable_name LIKE 'Handler_read%'";
    let version: String = sqlx::query_scalar("SELECT version()").fetch_one(&mut *tx).await.expect("a version");
    let read = if version.contains("MariaDB") { read } else { read_mysql };
    let before: i64 = sqlx::query_scalar(read).fetch_one(&mut *tx).await.expect("figures");
    let claim = with_values(sql!("deliveries/claim"), &["'coupon'", all, "500", "42", "'me'", "30000"]);
    let claimed = sqlx::raw_sql(AssertSqlSafe(claim)).execute(&mut *tx).await.expect("claims").rows_affected();
    let after: i64 = sqlx::query_scalar(read).fetch_one(&mut *tx).await.expect("figures");
    tx.rollback().await.expect("rolls back");
    assert_eq!(claimed, 500);
    assert!(after - before < 6_000, "{} rows were read", after - before);
    database.drop().await;
}

/// F39: plain SQL can write what the library would refuse. An event without a topic has no subscriber, and is routed
/// once.
#[tokio::test]
async fn mysql_routes_an_event_without_a_topic_once() {
    let (database, store) = Database::migrated().await;
    database.execute("INSERT INTO postrider_event (event_id, topic, payload) VALUES ('no topic', '', '{}')").await;
    assert_eq!(store.route(100).await.expect("routes").unheard, 1);
    assert_eq!(store.route(100).await.expect("routes").unheard, 0);
    let everything = "INSERT INTO postrider_subscription (topic, consumer, via) VALUES ('*', 'audit', 'local')";
    database.execute(everything).await;
    assert_eq!(store.route(100).await.expect("routes").routed, 1, "whoever hears everything hears it");
    database.drop().await;
}

/// F28: the store's sessions are at READ COMMITTED whatever the server's default, and those that carry the user's
/// statements have autocommit off.
#[tokio::test]
async fn mysql_sessions_are_at_read_committed() {
    let (database, store) = Database::migrated().await;
    let mut tx = store.begin().await.expect("begins");
    let level: Vec<(String, String)> =
        sqlx::query_as(sql!("schema/isolation")).fetch_all(&mut *tx).await.expect("a level");
    assert!(!level.is_empty() && level.iter().all(|(_, level)| level == "READ-COMMITTED"), "{level:?}");
    let commits: i64 = sqlx::query_scalar("SELECT @@autocommit").fetch_one(&mut *tx).await.expect("a setting");
    assert_eq!(commits, 0);
    drop(tx);
    database.drop().await;
}

/// Issue 4: a change of a subscription and a producer never wait for each other, at any isolation level below
/// SERIALIZABLE.
#[tokio::test]
async fn mysql_producers_and_changes_of_subscriptions_do_not_wait_for_each_other() {
    let (database, store) = Database::migrated().await;
    let outbox = a_consumer(&store).await;
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        let mut operator = database.connect().await;
        let mut change = operator.begin().await.expect("begins");
        sqlx::query("UPDATE postrider_subscription SET enabled = FALSE").execute(&mut *change).await.expect("changes");
        // An uncommitted change has no effect, and blocks no producer.
        let mut conn = database.connect().await;
        let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
        sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut conn).await.expect("sets");
        let mut tx = conn.begin().await.expect("begins");
        let asked = Instant::now();
        let enqueued = tokio::time::timeout(Duration::from_secs(5), outbox.enqueue(&mut tx, event(level))).await;
        assert!(matches!(enqueued, Ok(Ok(Enqueued::Accepted(_)))), "{level}: {enqueued:?}");
        eprintln!("{level}: enqueued in {:?} beside an open change of its subscription", asked.elapsed());
        let batch = [event(format!("{level} 1")), event(format!("{level} 2"))];
        let enqueued = tokio::time::timeout(Duration::from_secs(5), outbox.enqueue_many(&mut tx, batch)).await;
        assert!(matches!(enqueued, Ok(Ok(_))), "{level}: {enqueued:?}");
        change.rollback().await.expect("rolls back");
        // The producer has not committed, and an operator changes what it has read.
        let other = Subscription::new("order.paid", "coupon", Via::Local);
        let changed = tokio::time::timeout(Duration::from_secs(5), store.set_subscription(&other)).await;
        assert!(matches!(changed, Ok(Ok(()))), "{level}: {changed:?}");
        tx.commit().await.expect("commits");
    }
    assert_eq!(database.number("SELECT count(*) FROM postrider_delivery").await, 6);
    database.drop().await;
}

/// A caller at a stricter isolation level enqueues as usual. A duplicate that is committed after its snapshot is
/// still detected.
#[tokio::test]
async fn mysql_callers_at_stricter_isolation_get_correct_results() {
    let (database, store) = Database::migrated().await;
    let outbox = a_consumer(&store).await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut conn = database.connect().await;
        let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}; SET SESSION time_zone = '+08:00'");
        sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut conn).await.expect("sets");
        let mut tx = conn.begin().await.expect("begins");
        sqlx::query("SELECT count(*) FROM postrider_event").execute(&mut *tx).await.expect("a snapshot");
        let contested = format!("contested {level}");
        // SERIALIZABLE locks what it has read, so the other transaction must come first.
        if level == "SERIALIZABLE" {
            tx.rollback().await.expect("rolls back");
            tx = conn.begin().await.expect("begins");
        }
        let mut other = store.begin().await.expect("begins");
        outbox.enqueue(&mut other, event(&contested)).await.expect("enqueues");
        store.commit(other).await.expect("commits");
        let known = outbox.enqueue(&mut tx, event(&contested)).await.expect("a known one");
        assert!(matches!(known, Enqueued::Duplicate(_)), "{level}: {known:?}");
        let mixed =
            outbox.enqueue_many(&mut tx, [event(format!("new {level}")), event(&contested)]).await.expect("mixed");
        assert!(matches!(mixed[..], [Enqueued::Accepted(_), Enqueued::Duplicate(_)]), "{level}: {mixed:?}");
        let refused = outbox.enqueue(&mut tx, event(&contested).key("other")).await.expect_err("other content");
        assert!(matches!(refused, Error::IdConflict { .. }), "{level}: {refused:?}");
        let late = event(format!("late {level}")).delay(Duration::from_secs(3600));
        outbox.enqueue(&mut tx, late).await.expect("enqueues");
        tx.commit().await.expect("the transaction goes on");
        let late = store.find(&format!("late {level}")).await.expect("reads").expect("is there");
        let wait = late.deliveries[0].due_at - store.now().await.expect("the time");
        assert!((3500..3610).contains(&wait.whole_seconds()), "whatever the session's zone: {wait}");
    }
    database.drop().await;
}

/// F56: a deadlock inside the caller's transaction. Nothing more is sent, and everything is rolled back.
#[tokio::test]
async fn mysql_deadlocks_inside_the_callers_transaction_are_the_callers() {
    let (database, store) = Database::migrated().await;
    let outbox = a_consumer(&store).await;
    database.execute("CREATE TABLE business (id VARCHAR(64) PRIMARY KEY, n INT NOT NULL); INSERT INTO business VALUES ('shared', 0)").await;
    for round in 0..3 {
        let contested = format!("contested {round}");
        let mut theirs = store.begin().await.expect("begins");
        // The server chooses the transaction that has written less as the victim.
        let weight = (0..500).map(|n| event(format!("weight {round} {n}")));
        outbox.enqueue_many(&mut theirs, weight).await.expect("enqueues");
        outbox.enqueue(&mut theirs, event(&contested)).await.expect("enqueues");

        let mut conn = database.connect().await;
        let mut mine = conn.begin().await.expect("begins");
        let change = sqlx::query("INSERT INTO business VALUES (?, 1)").bind(&contested);
        change.execute(&mut *mine).await.expect("the business change");
        sqlx::query("UPDATE business SET n = n + 1 WHERE id = 'shared'").execute(&mut *mine).await.expect("a lock");
        let waiting = tokio::spawn(async move {
            let lock = "UPDATE business SET n = n + 1 WHERE id = 'shared'";
            sqlx::query(lock).execute(&mut *theirs).await.expect("it is not the victim");
            theirs
        });
        // In either order the two wait for each other.
        let lost = outbox.enqueue_many(&mut mine, [event(format!("mine {round}")), event(&contested)]).await;
        let lost = lost.expect_err("a deadlock");
        assert!(matches!(lost, Error::TransactionLost(_)), "{lost:?}");
        mine.rollback().await.expect("the caller rolls back");
        store.commit(waiting.await.expect("the other goes on")).await.expect("commits");
        assert!(store.find(&format!("mine {round}")).await.expect("reads").is_none(), "no event without its change");
        assert!(store.find(&contested).await.expect("reads").is_some(), "and the other's is there");
    }
    assert_eq!(database.number("SELECT count(*) FROM business").await, 1, "no change without its event");
    database.drop().await;
}

/// F28: a deadlock inside a transaction of the store's own. The store runs it again, and its caller does not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_deadlocks_inside_the_store_are_retried() {
    let (database, store) = Database::migrated().await;
    let outbox = a_consumer(&store).await;
    let mut tx = store.begin().await.expect("begins");
    outbox.enqueue_many(&mut tx, [event("first"), event("second")]).await.expect("enqueues");
    store.commit(tx).await.expect("commits");
    let lease = store.claim(&Claim::new("coupon", 10)).await.expect("claims");
    assert_eq!(lease.deliveries.len(), 2);

    database.execute("CREATE TABLE weight (n INT)").await;
    let mut conn = database.connect().await;
    let ids: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM postrider_delivery ORDER BY id").fetch_all(&mut conn).await.expect("ids");
    let mut theirs = conn.begin().await.expect("begins");
    // The server chooses the transaction that has written less as the victim.
    let heavy = "INSERT INTO weight WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 900) SELECT n FROM n";
    sqlx::query(heavy).execute(&mut *theirs).await.expect("writes");
    let lock = "SELECT id FROM postrider_delivery WHERE id = ? FOR UPDATE";
    sqlx::query(lock).bind(ids[1]).execute(&mut *theirs).await.expect("the lock of the second");
    let settling = tokio::spawn({
        let (store, token, ids) = (store.clone(), lease.token, lease.ids());
        async move { store.settle(token, &ids, History::Omit).await }
    });
    let waits = "SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p \
                 ON p.id = t.trx_mysql_thread_id WHERE p.db = database() AND t.trx_state = 'LOCK WAIT'";
    while database.number(waits).await == 0 {
        // InnoDB refreshes `innodb_trx` only if it was not read for 0.1 s.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    sqlx::query(lock).bind(ids[0]).execute(&mut *theirs).await.expect("it is not the victim");
    theirs.commit().await.expect("commits");
    let settled = settling.await.expect("ends").expect("the store tries again");
    assert_eq!(settled.len(), 2);
    database.drop().await;
}

/// F56: a lock timeout ends the statement and not the transaction; the error is the same.
#[tokio::test]
async fn mysql_lock_timeouts_inside_the_callers_transaction_are_the_callers() {
    let (database, store) = Database::migrated().await;
    let outbox = a_consumer(&store).await;
    let mut theirs = store.begin().await.expect("begins");
    outbox.enqueue(&mut theirs, event("contested")).await.expect("enqueues");
    let mut conn = database.connect().await;
    sqlx::raw_sql("SET SESSION innodb_lock_wait_timeout = 1").execute(&mut conn).await.expect("sets");
    let mut mine = conn.begin().await.expect("begins");
    outbox.enqueue(&mut mine, event("before")).await.expect("enqueues");
    let lost = outbox.enqueue(&mut mine, event("contested")).await.expect_err("the lock does not come");
    assert!(matches!(lost, Error::TransactionLost(_)), "{lost:?}");
    mine.rollback().await.expect("rolls back");
    store.commit(theirs).await.expect("commits");
    assert!(store.find("before").await.expect("reads").is_none());
    database.drop().await;
}

/// An older or missing schema is refused with the command to run; one that the printed script has created is
/// accepted.
#[tokio::test]
async fn mysql_schema_made_by_another_tool_is_accepted() {
    let database = Database::empty().await;
    let store = MySqlStore::connect(&database.url()).await.expect("connects");
    let refused = store.check_schema().await.expect_err("empty").to_string();
    assert!(refused.contains("version 0") && refused.contains("postrider migrate up --store 'mysql://"), "{refused}");
    assert!(!refused.contains(":postrider@"), "{refused}");

    shell(&database, &migrations(0));
    store.check_schema().await.expect("up to date");
    store.migrate().await.expect("nothing to do");
    database.execute("UPDATE postrider_migrations SET version = 9999 WHERE version = 1").await;
    assert!(matches!(store.check_schema().await, Err(Error::SchemaTooNew { found: 9999, .. })));
    database.drop().await;
}

/// A script of the migrations after a version completes a schema of that version.
#[tokio::test]
async fn mysql_schema_of_an_older_version_is_completed_by_another_tool() {
    let database = Database::empty().await;
    let store = MySqlStore::connect(&database.url()).await.expect("connects");
    let (all, newer) = (migrations(0), migrations(6));
    shell(&database, all.strip_suffix(&newer).expect("the newer ones are the end of all"));
    assert!(matches!(store.check_schema().await, Err(Error::SchemaOutOfDate { found: 6, .. })));
    shell(&database, &newer);
    store.check_schema().await.expect("up to date");
    store.migrate().await.expect("nothing to do");
    database.drop().await;
}

/// Runs a script in the `mariadb` shell.
fn shell(database: &Database, script: &str) {
    let (user, place) = database.server.trim_start_matches("mysql://").split_once('@').expect("a user");
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let (host, port) = place.split('/').next().and_then(|host| host.split_once(':')).expect("a port");
    let shell = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--host", host, "--port", port, "--user", user])
        .args(["--database", &database.name, "--execute", script])
        .env("MYSQL_PWD", password)
        .output()
        .expect("the shell runs");
    assert!(shell.status.success(), "{}", String::from_utf8_lossy(&shell.stderr));
}

/// MySQL commits each `CREATE`, so an interrupted migration leaves a part of it. The next run completes it.
#[tokio::test]
async fn mysql_migrations_that_died_in_between_are_finished() {
    let (database, store) = Database::migrated().await;
    database
        .execute(
            "DROP VIEW postrider_outbox, postrider_consume_log; DROP TABLE postrider_lease, postrider_job, postrider_pause; \
             DELETE FROM postrider_migrations WHERE version > 1; UPDATE postrider_migrations SET success = FALSE",
        )
        .await;
    assert!(matches!(store.check_schema().await, Err(Error::SchemaOutOfDate { found: 0, .. })));
    store.migrate().await.expect("goes on");
    store.check_schema().await.expect("up to date");
    assert_eq!(database.number("SELECT count(*) FROM postrider_outbox").await, 0);
    assert_eq!(database.number("SELECT count(*) FROM postrider_lease").await, 0);
    database.drop().await;
}

/// How long the load lasts.
fn load() -> Duration {
    Duration::from_secs(if std::env::var_os("POSTRIDER_SOAK").is_some() { 60 } else { 10 })
}

/// How long each change of a subscription stays open: long enough to notice a statement that waits for one.
const CHANGE: Duration = Duration::from_secs(2);

/// What was observed under load.
#[derive(Default)]
struct Seen {
    over: AtomicBool,
    committed: Mutex<Vec<String>>,
    /// How often each delivery of an event was completed.
    done: Mutex<HashMap<String, u32>>,
    longest_enqueue_us: AtomicU64,
    slow_enqueues: AtomicU64,
    /// Number of looks at lock waits, and how often a statement waited for a subscription.
    looks: AtomicU64,
    waits_for_a_subscription: AtomicU64,
    changes: AtomicU64,
    pruned: AtomicU64,
}

impl Seen {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn note_done(&self, lane: &str, events: impl IntoIterator<Item = String>) {
        let mut done = self.done.lock().expect("no panic");
        for event in events {
            *done.entry(format!("{lane}/{event}")).or_default() += 1;
        }
    }
}

/// F28: six claimers, three producers, a pruner, a router and a stream of subscription changes; a minute of it is part of
/// `make soak`. No deadlock reaches a caller, no producer waits for a change, nothing is lost or done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_under_load_surfaces_no_deadlock_and_loses_nothing() {
    let (database, store) = Database::migrated().await;
    store.register(&Subscription::new("order.paid", "coupon", Via::Local)).await.expect("registers");
    store.register(&Subscription::new("order.paid", "points", Via::Local)).await.expect("registers");
    let deadlocks = "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'";
    let deadlocks_before: Option<(String, String)> =
        sqlx::query_as(deadlocks).fetch_optional(&mut database.connect().await).await.expect("a figure");
    let seen = Arc::new(Seen::default());
    let mut tasks = Vec::new();
    for n in 0..6 {
        tasks.push(tokio::spawn(claim_under_load(store.clone(), Arc::clone(&seen), n)));
    }
    for n in 0..3 {
        tasks.push(tokio::spawn(produce_under_load(database.connect().await, store.clone(), Arc::clone(&seen), n)));
    }
    tasks.push(tokio::spawn(prune_under_load(store.clone(), Arc::clone(&seen))));
    tasks.push(tokio::spawn(change_under_load(database.connect().await, store.clone(), Arc::clone(&seen))));
    tasks.push(tokio::spawn(watch_lock_waits(database.connect().await, Arc::clone(&seen))));
    tokio::time::sleep(load()).await;
    seen.over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("nothing surfaced");
    }

    let committed = seen.committed.lock().expect("no panic").clone();
    let done = seen.done.lock().expect("no panic").clone();
    let deadlocks_after: Option<(String, String)> =
        sqlx::query_as(deadlocks).fetch_optional(&mut database.connect().await).await.expect("a figure");
    eprintln!(
        "F28: {} events, {} deliveries done, {} pruned, {} changes; longest enqueue {:?}, {} over 100 ms, for whatever reason; waits for a subscription: {} in {} looks; deadlocks of the server {:?} → {:?}",
        committed.len(),
        done.len(),
        seen.pruned.load(Ordering::Relaxed),
        seen.changes.load(Ordering::Relaxed),
        Duration::from_micros(seen.longest_enqueue_us.load(Ordering::Relaxed)),
        seen.slow_enqueues.load(Ordering::Relaxed),
        seen.waits_for_a_subscription.load(Ordering::Relaxed),
        seen.looks.load(Ordering::Relaxed),
        deadlocks_before.map(|(_, n)| n),
        deadlocks_after.map(|(_, n)| n),
    );
    for lane in ["coupon", "points"] {
        for event in &committed {
            assert_eq!(done.get(&format!("{lane}/{event}")), Some(&1), "{lane}/{event}");
        }
    }
    assert_eq!(done.len(), 2 * committed.len());
    assert!(committed.len() > 500, "the load was too small: {} events", committed.len());
    assert!(seen.looks.load(Ordering::Relaxed) > 20);
    assert_eq!(seen.waits_for_a_subscription.load(Ordering::Relaxed), 0, "somebody waited for a subscription");
    // A change stays open for two seconds. A busy machine does not delay an enqueue that long.
    let longest = Duration::from_micros(seen.longest_enqueue_us.load(Ordering::Relaxed));
    assert!(longest < CHANGE, "a producer has waited {longest:?}");
    assert_eq!(database.number("SELECT count(*) FROM postrider_delivery").await, 0);
    database.drop().await;
}

async fn produce_under_load(mut conn: MySqlConnection, store: MySqlStore, seen: Arc<Seen>, producer: u32) {
    let outbox = Outbox::new(store);
    let mut n = 0;
    while !seen.is_over() {
        n += 1;
        let id = |part: &str| format!("{producer}-{n}-{part}");
        // Each key belongs to one producer: the order of a key requires a lock on its aggregate. The session has the
        // server's default, REPEATABLE READ, as in most services.
        let mut tx = conn.begin().await.expect("begins");
        let began = Instant::now();
        let mut written = vec![id("one")];
        let one = event(&written[0]);
        outbox
            .enqueue(&mut tx, if n % 3 == 0 { one.key(format!("{producer}-k{}", n % 7)) } else { one })
            .await
            .expect("enqueues");
        if n % 5 == 0 {
            let more: Vec<_> = ["a", "b", "c"].map(id).to_vec();
            outbox.enqueue_many(&mut tx, more.iter().map(event)).await.expect("enqueues");
            written.extend(more);
        }
        if n % 4 == 0 {
            // One event by plain SQL, for the router.
            let plain = id("plain");
            let insert = "INSERT INTO postrider_event (event_id, topic, payload) VALUES (?, 'order.paid', '7')";
            sqlx::query(insert).bind(&plain).execute(&mut *tx).await.expect("inserts");
            written.push(plain);
        }
        let took = began.elapsed();
        tx.commit().await.expect("commits");
        seen.longest_enqueue_us.fetch_max(took.as_micros() as u64, Ordering::Relaxed);
        seen.slow_enqueues.fetch_add(u64::from(took > Duration::from_millis(100)), Ordering::Relaxed);
        seen.committed.lock().expect("no panic").extend(written);
    }
}

/// Claims until the load has ended and nothing is left.
async fn claim_under_load(store: MySqlStore, seen: Arc<Seen>, claimer: u32) {
    let lane = if claimer.is_multiple_of(2) { "coupon" } else { "points" };
    let claim = Claim { owner: format!("claimer-{claimer}"), ..Claim::new(lane, 20) };
    let mut round = claimer;
    loop {
        round += 1;
        let last_look = seen.is_over();
        let routed = store.route(100).await.expect("routes").routed;
        let plain = store.claim(&claim).await.expect("claims");
        let keyed = store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims");
        let nothing = plain.deliveries.is_empty() && keyed.deliveries.is_empty() && routed == 0;
        for lease in [plain, keyed] {
            work_off(&store, &seen, lane, lease, round).await;
        }
        if nothing
            && last_look
            && store.counts().await.expect("counts").is_empty()
            && store.route(1).await.expect("routes").routed == 0
        {
            return;
        }
    }
}

async fn work_off(store: &MySqlStore, seen: &Seen, lane: &str, lease: Lease, round: u32) {
    let Some(first) = lease.deliveries.first() else { return };
    let ids: Vec<_> = lease.deliveries.iter().map(|claimed| claimed.envelope.event_id.to_string()).collect();
    match round % 5 {
        // One fails and the rest is released.
        0 if first.attempt < 3 => {
            let failed = Failed { id: first.id, after: Duration::ZERO, error: "boom".into(), code: None };
            store.retry(lease.token, &[failed], History::Keep).await.expect("retries");
            store.release(lease.token, &lease.ids()).await.expect("releases");
        }
        // As in the inbox: receive, have an effect, complete.
        1 | 2 => {
            let mut tx = store.begin().await.expect("begins");
            let receipt = |id| Receipt {
                consumer: lane,
                event_id: id,
                topic: "order.paid",
                tenant_id: None,
                idempotency_key: None,
            };
            let receipts: Vec<_> = ids.iter().map(|id| receipt(id)).collect();
            let received = store.receive_many(&mut tx, &receipts).await.expect("receives");
            assert!(received.iter().all(|new| *new), "nobody else has had them");
            let deliveries = lease.deliveries.iter().zip(&ids);
            let completed: Vec<_> = deliveries
                .map(|(claimed, id)| Completed { event_id: id, delivery: claimed.id, result: None })
                .collect();
            let end = Completion { consumer: lane, token: lease.token, history: History::Keep, completed: &completed };
            store.complete(&mut tx, &end).await.expect("completes");
            store.commit(tx).await.expect("commits");
            seen.note_done(lane, ids);
        }
        _ => {
            let settled = store.settle(lease.token, &lease.ids(), History::Keep).await.expect("settles");
            assert_eq!(settled.len(), ids.len(), "all of them were ours");
            seen.note_done(lane, ids);
        }
    }
}

async fn prune_under_load(store: MySqlStore, seen: Arc<Seen>) {
    let mut after = 0;
    while !seen.is_over() {
        // Everything that is finished, at once, so that the pruner competes with the other tasks.
        let prune = Prune { what: Prunable::Events, older_than: Duration::ZERO, after, limit: 200 };
        let pruned = store.prune(&prune).await.expect("prunes");
        seen.pruned.fetch_add(pruned.removed, Ordering::Relaxed);
        after = pruned.next.unwrap_or_default();
        let inbox = Prune { what: Prunable::Inbox, older_than: Duration::from_secs(5), after: 0, limit: 200 };
        store.prune(&inbox).await.expect("prunes");
    }
}

async fn change_under_load(mut conn: MySqlConnection, store: MySqlStore, seen: Arc<Seen>) {
    while !seen.is_over() {
        let mut change = conn.begin().await.expect("begins");
        let sql = "UPDATE postrider_subscription SET sort_order = sort_order + 1, updated_at = UTC_TIMESTAMP(6)";
        sqlx::query(sql).execute(&mut *change).await.expect("changes");
        tokio::time::sleep(CHANGE).await;
        change.commit().await.expect("commits");
        for consumer in ["coupon", "points"] {
            store.set_subscription(&Subscription::new("order.paid", consumer, Via::Local)).await.expect("sets");
            seen.changes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Reads from the server which transactions wait for the lock of a subscription, often enough to see a wait of a
/// tenth of a second.
async fn watch_lock_waits(mut conn: MySqlConnection, seen: Arc<Seen>) {
    let version: String = sqlx::query_scalar("SELECT version()").fetch_one(&mut conn).await.expect("a version");
    let waits = if version.contains("MariaDB") {
        "SELECT count(*) FROM information_schema.innodb_lock_waits w \
             JOIN information_schema.innodb_locks l ON l.lock_id = w.requested_lock_id \
             WHERE l.lock_table LIKE concat('%', database(), '%postrider_subscription%')"
    } else {
        "SELECT count(*) FROM performance_schema.data_locks \
             WHERE object_schema = database() AND object_name = 'postrider_subscription' AND lock_status = 'WAITING'"
    };
    while !seen.is_over() {
        let waiting: i64 = sqlx::query_scalar(waits).fetch_one(&mut conn).await.expect("an answer");
        seen.waits_for_a_subscription.fetch_add(waiting.unsigned_abs(), Ordering::Relaxed);
        seen.looks.fetch_add(1, Ordering::Relaxed);
        // InnoDB refreshes these tables only if they were not read for a tenth of a second.
        tokio::time::sleep(Duration::from_millis(105)).await;
    }
}

/// The program's pool serves its transactions, and the store adds at most four sessions.
#[tokio::test]
async fn mysql_stores_use_the_programs_own_pool() {
    let database = Database::empty().await;
    let pool =
        sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&database.url()).await.expect("connects");
    sqlx::query(MARKS).execute(&pool).await.expect("creates");
    let store = MySqlStore::from_pool(pool.clone()).await.expect("takes the pool");
    crate::pool::transactions_of_the_programs_pool(store.clone(), |conn| {
        Box::pin(async move { sqlx::query(MARK).execute(conn).await.map(drop) })
    })
    .await;
    let added = "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND id <> connection_id()";
    let added: i64 = sqlx::query_scalar(added).fetch_one(&pool).await.expect("counts");
    assert!((1..=4).contains(&added), "{added} sessions");
    drop(store);
    database.drop().await;
}

/// A.7: an effect is found by its business key.
#[tokio::test]
async fn mysql_finds_business_keys_by_index() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    let fill = "INSERT INTO postrider_inbox (consumer, event_id, topic, idempotency_key)
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 900)
        SELECT 'c', concat('e', n), 't', CASE WHEN n % 10 = 0 THEN concat('order:', n) END FROM n";
    sqlx::raw_sql(fill).execute(&mut conn).await.expect("fills");
    let by_key = "SELECT consumer, event_id FROM postrider_inbox WHERE idempotency_key = ?";
    let plan = plan(&mut conn, by_key, &["'order:70'"]).await;
    assert_eq!((&*plan[0].access, &*plan[0].key), ("ref", "postrider_inbox_key"), "{}", plan[0].extra);
    database.drop().await;
}

/// G.11: a story reads its rows by index, and so does a look at the keys behind dead deliveries.
#[tokio::test]
async fn mysql_tells_stories_by_index() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    let numbers = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 900)";
    for fill in [
        format!("INSERT INTO postrider_inbox (consumer, event_id, topic) {numbers} SELECT 'c', concat('e', n), 't' FROM n"),
        format!(
            "INSERT INTO postrider_idempotency (scope, `key`, fingerprint, status, token, lock_until)
             {numbers} SELECT concat('s', n % 100), concat('k', n), '', 'SUCCESS', n, now() FROM n"
        ),
        format!(
            "INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
             {numbers} SELECT n, 'c', 0, CASE WHEN n % 100 = 1 THEN 3 ELSE 2 END, concat('key', n DIV 100), now() FROM n"
        ),
    ] {
        sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut conn).await.expect("fills");
    }
    let waiting = "SELECT 1 AS one FROM postrider_delivery d FORCE INDEX (postrider_delivery_key)
        WHERE d.lane = ? AND d.event_key = ? AND d.event_seq > ? AND d.place <> 3 LIMIT 1000";
    for (sql, values, table, index) in [
        (sql!("stories/received"), &[r#"'[["c","e70"]]'"#][..], "r", "PRIMARY"),
        (sql!("stories/keys_named"), &[r#"'["k70"]'"#, "1000"], "k", "postrider_idempotency_key"),
        (waiting, &["'c'", "'key7'", "701"], "d", "postrider_delivery_key"),
    ] {
        let plan = plan(&mut conn, sql, values).await;
        let step = plan.iter().find(|step| step.table == table).unwrap_or_else(|| panic!("{plan:?}"));
        assert!(step.key == index && step.access != "ALL" && step.access != "index", "{plan:?}");
    }
    database.drop().await;
}
