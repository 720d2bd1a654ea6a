//! PostgreSQL: plans on a large table, poolers, isolation levels, and a schema that another tool has created.

use std::ops::RangeInclusive;
use std::process::Command;

use postrider::prelude::*;
use postrider::store::postgres::{PostgresStore, migrations};
use postrider::store::{Claim, DeadHead, History};
use postrider::{Draft, Enqueued, Error, Outbox, Subscription, Via};
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::pool::{MARK, MARKS};

const CLAIM: &str = include_str!("../../queries/postgres/deliveries/claim.sql");
const CLAIM_KEYED: &str = include_str!("../../queries/postgres/deliveries/claim_keyed.sql");
const ROUTE_LOCK: &str = include_str!("../../queries/postgres/events/route_lock.sql");
const SESSION: &str = include_str!("../../queries/postgres/schema/session.sql");
const SETTLE: &str = include_str!("../../queries/postgres/deliveries/settle.sql");
const SETTLE_KEEP: &str = include_str!("../../queries/postgres/deliveries/settle_keep.sql");

/// `sql!("deliveries/claim")` is the statement in `queries/postgres/deliveries/claim.sql`.
macro_rules! sql {
    ($verb:literal) => {
        include_str!(concat!("../../queries/postgres/", $verb, ".sql"))
    };
}

/// A database that is dropped when the test has passed.
struct Database {
    server: String,
    name: String,
}

impl Database {
    async fn empty() -> Self {
        let server = std::env::var("POSTRIDER_TEST_POSTGRES")
            .expect("POSTRIDER_TEST_POSTGRES is not set: run `make services` and `eval \"$(scripts/services urls)\"`");
        let name = format!("it_{}", uuid::Uuid::new_v4().simple());
        let database = Self { server, name };
        database.at_server(format!("CREATE DATABASE {}", database.name)).await;
        database
    }

    async fn migrated() -> (Self, PostgresStore) {
        let database = Self::empty().await;
        let store = PostgresStore::connect(&database.url()).await.expect("connects");
        store.migrate().await.expect("migrates");
        (database, store)
    }

    fn url(&self) -> String {
        self.on(&self.server)
    }

    /// The same database at another server's address.
    fn on(&self, server: &str) -> String {
        let (server, _) = server.rsplit_once('/').expect("the URL names a database");
        format!("{server}/{}", self.name)
    }

    async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url()).await.expect("connects")
    }

    async fn at_server(&self, sql: String) {
        let mut conn = PgConnection::connect(&self.server).await.expect("the server answers");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("the server obeys");
    }

    async fn drop(self) {
        self.at_server(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

/// 200,000 deliveries of one lane: a third without a key; dead, delayed, held and leased ones in front of what is due.
const LARGE: &str = "
    INSERT INTO postrider_event (event_id, topic, payload, event_key, waits_for)
    SELECT 'e' || n, 'order.paid', '{}', CASE WHEN n % 3 > 0 THEN 'key-' || n % 5000 END, NULL FROM generate_series(1, 200000) n;
    INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at, token, lock_time, lock_until, attempts)
    SELECT seq, 'coupon', seq % 64,
           CASE WHEN seq <= 20000 THEN 3 WHEN seq <= 40000 AND event_key IS NOT NULL THEN 2 WHEN event_key IS NULL THEN 0 ELSE 1 END,
           event_key,
           now() + CASE WHEN seq BETWEEN 40001 AND 100000 THEN interval '1 h' ELSE interval '-1 h' END,
           CASE WHEN seq BETWEEN 100001 AND 101000 THEN 1 END,
           CASE WHEN seq BETWEEN 100001 AND 101000 THEN now() END,
           CASE WHEN seq BETWEEN 100001 AND 101000 THEN now() + interval '1 h' END, 0
    FROM postrider_event";

/// 20,000 events that wait: for the router, for a subscriber, and for nothing.
const WAITING: &str = "
    INSERT INTO postrider_event (event_id, topic, payload, waits_for)
    SELECT 'w' || n, 't' || n % 100, '{}', CASE n % 2 WHEN 0 THEN 't' || n % 100 ELSE '' END FROM generate_series(1, 20000) n;
    INSERT INTO postrider_subscription (topic, consumer) VALUES ('t50', 'somebody')";

/// The lines of an executed plan.
async fn plan(conn: &mut PgConnection, types: &str, sql: &str, values: &str) -> Vec<String> {
    prepare(conn, "it", types, sql).await;
    let lines = explain(conn, "it", values).await;
    sqlx::raw_sql("DEALLOCATE it").execute(conn).await.expect("forgets");
    lines
}

async fn prepare(conn: &mut PgConnection, name: &str, types: &str, sql: &str) {
    let prepare = format!("PREPARE {name} ({types}) AS {sql}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(conn).await.expect("prepares");
}

async fn explain(conn: &mut PgConnection, name: &str, values: &str) -> Vec<String> {
    let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE {name} ({values})");
    sqlx::query_scalar(AssertSqlSafe(explain)).fetch_all(conn).await.expect("explains")
}

/// The number of rows that the busiest node of a plan has read.
fn most_rows(plan: &[String]) -> usize {
    let number = |line: &str, after: &str| {
        let digits = line.split(after).nth(1)?.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<usize>().ok()
    };
    let mut loops = 1;
    let rows = plan.iter().map(|line| match number(line, "loops=") {
        Some(n) => {
            loops = n;
            number(line, "actual rows=").unwrap_or_default() * loops
        }
        None => number(line, "Rows Removed by Filter: ").unwrap_or_default() * loops,
    });
    rows.max().unwrap_or_default()
}

/// The node that begins with `words`, with its lines.
fn node<'a>(plan: &'a [String], words: &str) -> &'a [String] {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let start = plan.iter().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{words} in {plan:#?}"));
    let end = plan[start + 1..].iter().position(|line| indent(line) <= indent(&plan[start]));
    &plan[start..end.map_or(plan.len(), |end| start + 1 + end)]
}

/// B.5: the claim uses its index, never sorts, and reads little more than it takes, whatever waits, is leased,
/// delayed, held or dead; with and without statistics.
#[tokio::test]
async fn postgres_claims_by_index_without_a_sort() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    sqlx::raw_sql(SESSION).execute(&mut conn).await.expect("sets up");
    sqlx::raw_sql(LARGE).execute(&mut conn).await.expect("fills");
    sqlx::raw_sql(WAITING).execute(&mut conn).await.expect("fills");
    for analysed in [false, true] {
        if analysed {
            sqlx::raw_sql("ANALYZE").execute(&mut conn).await.expect("analyses");
        }
        let types = "varchar, smallint[], bigint, bigint, varchar, bigint, timestamptz, bigint";
        let claim = plan(&mut conn, types, CLAIM, "'coupon', NULL, 500, 42, 'me', 30000, NULL, 0").await;
        assert!(!claim.iter().any(|line| line.contains("Sort") || line.contains("Seq Scan")), "{claim:#?}");
        let scan = node(&claim, "Index Scan using postrider_delivery_due").join("\n");
        assert!(scan.contains("actual rows=500"), "{scan}");
        assert!(scan.contains("(due_at <= now())") && scan.contains("(place = 0)"), "{scan}");

        let types = "varchar, smallint[], bigint, bigint, varchar, bigint, boolean, bigint, int, bigint, bigint";
        let values = "'coupon', NULL, 500, 43, 'me', 30000, true, 2000, 1, 16, 500";
        let keyed = plan(&mut conn, types, CLAIM_KEYED, values).await;
        assert!(!keyed.iter().any(|line| line.contains("Seq Scan")), "{keyed:#?}");
        let window = node(&keyed, "CTE due").join("\n");
        assert!(window.contains("Index Scan using postrider_delivery_due") && !window.contains("Sort"), "{window}");
        let run = node(&keyed, "CTE run").join("\n");
        assert!(run.contains("Index Scan using postrider_delivery_key") && !run.contains("Sort"), "{run}");

        let route = plan(&mut conn, "bigint", ROUTE_LOCK, "100").await;
        assert!(!route.iter().any(|line| line.contains("Seq Scan on postrider_event")), "{route:#?}");
        for (part, rows) in [("CTE arrived", "rows=100 "), ("CTE heard", "rows=100 "), ("CTE heard_by_all", "rows=0 ")]
        {
            let part = node(&route, part).join("\n");
            assert!(
                part.contains("Index Scan using postrider_event_waits") && !part.contains("Sort Key: postrider_event"),
                "{part}"
            );
            assert!(part.lines().nth(1).expect("a node").contains(rows), "{part}");
        }
    }
    database.drop().await;
}

/// D.13: lists and the roll-up use an index, never sort, and read no more than their limit: with and without
/// statistics, and also with plans that were made before there was a status.
#[tokio::test]
async fn postgres_lists_by_index_without_a_sort() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    let events = "
        INSERT INTO postrider_event (event_id, topic, payload, waits_for)
        SELECT 'e' || n, 'order.paid', '{}', NULL FROM generate_series(1, 200000) n";
    for sql in [SESSION, events] {
        sqlx::raw_sql(sql).execute(&mut conn).await.expect("sets up");
    }
    let last = i64::MAX;
    let seqs = format!("'{{{}}}'", (150_001..=150_500).map(|seq| seq.to_string()).collect::<Vec<_>>().join(","));
    let filter = r#"'{"topic":"order.paid","consumer":"c"}'"#;
    let statements = [
        (
            sql!("lists/list_lookup"),
            "bigint, bigint, bigint, bigint",
            format!("0, {last}, 7, 200"),
            "postrider_lookup_pkey",
        ),
        (
            sql!("lists/list_status"),
            "bigint, bigint, text, bigint",
            format!("0, {last}, 'CONSUMED', 200"),
            "postrider_status_status",
        ),
        (sql!("lists/list_events"), "bigint, bigint, bigint", format!("0, {last}, 200"), "postrider_event_pkey"),
        (sql!("lists/list_unfolded_after"), "bigint", "1000".into(), "postrider_status_pkey"),
        (sql!("lists/list_unfolded"), "bigint, bigint, bigint", format!("199000, {last}, 200"), "postrider_event_pkey"),
        (sql!("lists/list_among_lookup"), "bigint[], bigint", format!("{seqs}, 7"), "postrider_lookup_pkey"),
        (sql!("lists/list_among_status"), "bigint[], text", format!("{seqs}, 'CONSUMED'"), "postrider_status_pkey"),
        (
            sql!("lists/list_delivering"),
            "bigint[], text, text",
            format!("{seqs}, NULL, 'DEAD'"),
            "postrider_delivery_pkey",
        ),
        (sql!("lists/list_match"), "bigint[], text", format!("{seqs}, {filter}"), "postrider_event_pkey"),
        (sql!("lists/search_ids"), "text, text, bigint", "'e150', 'e151', 20".into(), "postrider_event_event_id_key"),
        (sql!("lists/list_ids"), "text", r#"'["e150","e151"]'"#.into(), "postrider_event_event_id_key"),
        (
            "SELECT event_seq, event_id FROM postrider_operation_item \
             WHERE operation = $1 AND outcome = $2 ORDER BY event_seq DESC LIMIT $3",
            "bigint, smallint, bigint",
            "1, 0::smallint, 200".into(),
            "postrider_operation_item_outcome",
        ),
        (
            "SELECT event_seq, event_id, step, watched FROM postrider_operation_item \
             WHERE operation = $1 AND outcome = $2 AND event_seq > $3 ORDER BY event_seq LIMIT $4",
            "bigint, smallint, bigint, bigint",
            "1, 1::smallint, 150000, 500".into(),
            "postrider_operation_item_outcome",
        ),
        (sql!("events/records"), "bigint[]", seqs.clone(), "postrider_event_pkey"),
        (sql!("upkeep/fold_take"), "bigint", "500".into(), "postrider_mark_pkey"),
        (sql!("upkeep/fold_expiring"), "bigint", "500".into(), "postrider_status_expires"),
        (sql!("upkeep/fold_new"), "bigint, bigint, bigint", "199000, 200000, 500".into(), "postrider_event_pkey"),
    ];
    let holds = |plan: Vec<String>, index: &str| {
        let text = plan.join("\n");
        assert!(text.contains(index), "{text}");
        assert!(!text.contains("Seq Scan") && !text.contains("Sort"), "{text}");
        assert!(most_rows(&plan) <= 1_000, "{text}");
    };
    for (at, (sql, types, values, _)) in statements.iter().enumerate() {
        prepare(&mut conn, &format!("early{at}"), types, sql).await;
        explain(&mut conn, &format!("early{at}"), values).await;
    }
    let fill = "
        INSERT INTO postrider_status (event_seq, status, expires_at)
        SELECT seq, CASE seq % 10 WHEN 0 THEN 'FAILED' ELSE 'CONSUMED' END, CASE seq % 10 WHEN 0 THEN now() END FROM postrider_event;
        INSERT INTO postrider_lookup (hash, event_seq) SELECT seq % 10, seq FROM postrider_event;
        INSERT INTO postrider_mark (event_seq) SELECT seq FROM postrider_event;
        INSERT INTO postrider_operation_item (operation, event_seq, event_id, outcome)
        SELECT 1, seq, event_id, CASE WHEN seq < 100000 THEN 2 WHEN seq % 2 = 0 THEN 1 ELSE 0 END FROM postrider_event;
        UPDATE postrider_rollup SET folded_to = 200000";
    sqlx::raw_sql(fill).execute(&mut conn).await.expect("fills");
    for (at, (_, _, values, index)) in statements.iter().enumerate() {
        holds(explain(&mut conn, &format!("early{at}"), values).await, index);
    }
    for analysed in [false, true] {
        if analysed {
            sqlx::raw_sql("ANALYZE").execute(&mut conn).await.expect("analyses");
        }
        for (sql, types, values, index) in &statements {
            holds(plan(&mut conn, types, sql, values).await, index);
        }
    }
    database.drop().await;
}

/// A relay starts before there is any work. The plans that it makes then are still right on large tables.
#[tokio::test]
async fn postgres_plans_made_on_empty_tables_fit_full_ones() {
    for known in ["", "VACUUM ANALYZE"] {
        let (database, _store) = Database::migrated().await;
        let mut conn = database.connect().await;
        // An ANALYZE in between would invalidate the plans.
        let still = "ALTER TABLE postrider_event SET (autovacuum_enabled = off);
            ALTER TABLE postrider_delivery SET (autovacuum_enabled = off)";
        for sql in [SESSION, still, known] {
            sqlx::raw_sql(sql).execute(&mut conn).await.expect("sets up");
        }
        let leased = |seqs: RangeInclusive<u32>| {
            let seqs: Vec<String> = seqs.map(|seq| seq.to_string()).collect();
            format!("'{{{}}}'", seqs.join(","))
        };
        let (first, second) = (leased(100_001..=100_500), leased(100_501..=101_000));
        let claim = "varchar, smallint[], bigint, bigint, varchar, bigint, timestamptz, bigint";
        let keyed = "varchar, smallint[], bigint, bigint, varchar, bigint, boolean, bigint, int, bigint, bigint";
        let known_keys = "varchar, varchar[], bigint, bigint, varchar, bigint, boolean";
        let settle = "tid[], bigint[], bigint, bigint[], text";
        let statements = [
            ("claim", claim, CLAIM, "'coupon', NULL, 500, 42, 'me', 30000, NULL, 0".into()),
            ("claim_keyed", keyed, CLAIM_KEYED, "'coupon', NULL, 500, 43, 'me', 30000, true, 2000, 1, 16, 500".into()),
            (
                "claim_known_keys",
                known_keys,
                sql!("deliveries/claim_known_keys"),
                "'coupon', '{key-1,key-2}', 500, 44, 'me', 30000, true".into(),
            ),
            (
                "claim_fetch",
                "bigint[], bigint[], bigint",
                sql!("deliveries/claim_fetch"),
                "'{100001}', '{100500}', 1000".into(),
            ),
            (
                "claim_fetch_scattered",
                "bigint[], bigint[], bigint",
                sql!("deliveries/claim_fetch"),
                format!("{first}, {first}, 1000"),
            ),
            ("claim_more", "bigint[]", sql!("deliveries/claim_more"), first.clone()),
            ("settle", settle, SETTLE, format!("'{{}}', {first}, 1, {first}, NULL")),
            ("settle_keep", settle, SETTLE_KEEP, format!("'{{}}', {second}, 1, {second}, 'points'")),
            ("route_lock", "bigint", ROUTE_LOCK, "100".into()),
        ];
        for (name, types, sql, values) in &statements {
            prepare(&mut conn, name, types, sql).await;
            explain(&mut conn, name, values).await;
        }
        for sql in [LARGE, WAITING] {
            sqlx::raw_sql(sql).execute(&mut conn).await.expect("fills");
        }
        for (name, _, _, values) in &statements {
            let plan = explain(&mut conn, name, values).await;
            // Its own rows, and those behind dead ones of the keys; never the whole table.
            assert!(most_rows(&plan) <= 20_000, "{name}: {plan:#?}");
        }
        database.drop().await;
    }
}

/// A consumer's transaction runs on a session of the user, with the user's settings, from the first event on.
#[tokio::test]
async fn postgres_plans_on_sessions_of_the_user_fit_full_tables() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    // Statistics would invalidate the plans: here they stay as they were made on the first events. A session changes
    // to a generic plan with the sixth use.
    let setup = "ALTER TABLE postrider_event SET (autovacuum_enabled = off);
        ALTER TABLE postrider_delivery SET (autovacuum_enabled = off);
        ALTER TABLE postrider_inbox SET (autovacuum_enabled = off);
        ALTER TABLE postrider_consumption SET (autovacuum_enabled = off);
        SET plan_cache_mode = force_generic_plan; BEGIN";
    sqlx::raw_sql(setup).execute(&mut conn).await.expect("sets up");
    let hundred = |before: &str, from: u32| {
        let all: Vec<String> = (from..from + 100).map(|seq| format!("{before}{seq}")).collect();
        format!("'{{{}}}'", all.join(","))
    };
    let (ids, first, second) = (hundred("e", 100_001), hundred("", 100_001), hundred("", 100_101));
    let settle = "tid[], bigint[], bigint, bigint[], text";
    // In the order of a transaction: `count_received.sql` changes the planner settings for the statements after it.
    let statements = [
        (
            "complete",
            "text, text, bigint, bigint, bigint, boolean",
            sql!("inbox/complete"),
            "'coupon', 'e100500', 100500, 100500, 1, true".into(),
        ),
        ("keep_results", "text, text[], text[]", sql!("inbox/keep_results"), format!("'coupon', {ids}, {ids}")),
        ("count_received", "text, text[]", sql!("inbox/count_received"), format!("'coupon', {ids}")),
        ("settle", settle, SETTLE, format!("'{{}}', {first}, 1, {first}, NULL")),
        ("settle_keep", settle, SETTLE_KEEP, format!("'{{}}', {second}, 1, {second}, 'points'")),
    ];
    for (name, types, sql, values) in &statements {
        prepare(&mut conn, name, types, sql).await;
        explain(&mut conn, name, values).await;
    }
    let received =
        "INSERT INTO postrider_inbox (consumer, event_id, topic) SELECT 'coupon', event_id, topic FROM postrider_event;
        INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at)
        SELECT seq, 'mail', 1, true, now() FROM postrider_event";
    for sql in ["COMMIT; BEGIN", LARGE, received] {
        sqlx::raw_sql(sql).execute(&mut conn).await.expect("fills");
    }
    for (name, _, _, values) in &statements {
        let plan = explain(&mut conn, name, values).await;
        assert!(most_rows(&plan) <= 2_000, "{name}: {plan:#?}");
    }
    database.drop().await;
}

/// Planning takes as long as everything else in a consumer's transaction. Its last statements have a generic plan,
/// even if statistics were taken with few events and many lanes.
#[tokio::test]
async fn postgres_completes_with_one_plan() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    let unlucky = "INSERT INTO postrider_delivery (event_seq, lane, shard, place, due_at)
        SELECT n % 10, 'lane-' || n / 10, 0, 0, now() FROM generate_series(0, 9999) n;
        ANALYZE postrider_delivery";
    sqlx::raw_sql(unlucky).execute(&mut conn).await.expect("fills");
    prepare(&mut conn, "complete", "text, text, bigint, bigint, bigint, boolean", sql!("inbox/complete")).await;
    prepare(&mut conn, "keep_result", "text, text, text", sql!("inbox/keep_result")).await;
    for event in 100..120 {
        explain(&mut conn, "keep_result", &format!("'coupon', 'e{event}', 'done'")).await;
        explain(&mut conn, "complete", &format!("'coupon', 'e{event}', {event}, {event}, 1, true")).await;
    }
    let plans = "SELECT name, custom_plans FROM pg_prepared_statements";
    let made: Vec<(String, i64)> = sqlx::query_as(plans).fetch_all(&mut conn).await.expect("counts plans");
    for (name, made) in made {
        assert!(made <= 5, "plans of {name} were made for {made} of 20 uses");
    }
    database.drop().await;
}

/// D.2: producers cache subscribers, but every change of the subscriptions has an effect, however it was made.
#[tokio::test]
async fn postgres_notices_subscriptions_changed_by_hand() {
    async fn lanes(store: &PostgresStore, conn: &mut PgConnection) -> Vec<String> {
        let draft = Draft::json("order.paid", &7).expect("JSON");
        let outbox = Outbox::new(store.clone());
        let enqueued = match outbox.enqueue(conn, draft.clone()).await {
            // Outside the transactions that the test begins by hand.
            Err(Error::NoTransaction) => {
                let mut tx = conn.begin().await.expect("begins");
                let enqueued = outbox.enqueue(&mut tx, draft).await.expect("enqueues");
                tx.commit().await.expect("commits");
                enqueued
            }
            enqueued => enqueued.expect("enqueues"),
        };
        let lanes = "SELECT d.lane FROM postrider_delivery d JOIN postrider_event e ON e.seq = d.event_seq \
                     WHERE e.event_id = $1 ORDER BY d.lane";
        sqlx::query_scalar(lanes).bind(enqueued.event_id().as_str()).fetch_all(conn).await.expect("reads")
    }
    async fn run(conn: &mut PgConnection, sql: &'static str) {
        sqlx::raw_sql(sql).execute(conn).await.expect(sql);
    }
    let (database, store) = Database::migrated().await;
    let (mut one, mut other) = (database.connect().await, database.connect().await);
    run(&mut one, "INSERT INTO postrider_subscription (topic, consumer, via) VALUES ('order.paid', 'a', 'pull')").await;
    assert_eq!(lanes(&store, &mut one).await, ["a"]);
    run(&mut other, "INSERT INTO postrider_subscription (topic, consumer, via) VALUES ('*', 'b', 'pull')").await;
    assert_eq!(lanes(&store, &mut one).await, ["a", "b"]);

    // Visible in the transaction that made it, and not cached after the rollback.
    run(&mut one, "BEGIN; UPDATE postrider_subscription SET enabled = false WHERE consumer = 'b'").await;
    assert_eq!(lanes(&store, &mut one).await, ["a"]);
    assert_eq!(lanes(&store, &mut other).await, ["a", "b"], "not committed");
    run(&mut one, "SAVEPOINT here; UPDATE postrider_subscription SET enabled = NOT enabled").await;
    assert_eq!(lanes(&store, &mut one).await, ["b"]);
    run(&mut one, "ROLLBACK TO here").await;
    assert_eq!(lanes(&store, &mut one).await, ["a"]);
    run(&mut one, "ROLLBACK").await;
    assert_eq!(lanes(&store, &mut one).await, ["a", "b"]);

    // What a snapshot from before the change reads is not cached for transactions that see the change.
    run(&mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM postrider_event LIMIT 1").await;
    run(&mut other, "INSERT INTO postrider_subscription (topic, consumer, via) VALUES ('order.paid', 'c', 'pull')")
        .await;
    for _ in 0..3 {
        // The first call invalidates the cache, the second reads again.
        lanes(&store, &mut one).await;
        lanes(&store, &mut one).await;
        assert_eq!(lanes(&store, &mut other).await, ["a", "b", "c"]);
    }
    run(&mut one, "COMMIT").await;
    assert_eq!(lanes(&store, &mut one).await, ["a", "b", "c"]);

    // An open transaction may continue with the subscriptions that it began with; the next one does not.
    run(&mut one, "BEGIN").await;
    assert_eq!(lanes(&store, &mut one).await, ["a", "b", "c"]);
    run(&mut other, "UPDATE postrider_subscription SET removed = true WHERE consumer = 'c'").await;
    lanes(&store, &mut one).await;
    assert_eq!(lanes(&store, &mut other).await, ["a", "b"]);
    run(&mut one, "COMMIT").await;
    assert_eq!(lanes(&store, &mut one).await, ["a", "b"]);

    run(&mut other, "TRUNCATE postrider_subscription").await;
    assert!(lanes(&store, &mut one).await.is_empty());
    database.drop().await;
}

/// F39: plain SQL can write what the library would refuse. It is kept as it is, or refused at once, and blocks
/// nothing.
#[tokio::test]
async fn postgres_keeps_or_refuses_any_plain_sql() {
    let (database, store) = Database::migrated().await;
    let mut conn = database.connect().await;
    let written = "
        INSERT INTO postrider_subscription (topic, consumer, via) VALUES ('order.paid', 'coupon', 'local');
        INSERT INTO postrider_event (event_id, topic, payload) VALUES ('no topic', '', '{}');
        INSERT INTO postrider_event (event_id, topic, payload, trace_id, span_id, aggregate_type, aggregate_id, tenant_id, initiator)
        SELECT 'long', 'order.paid', '{}', long, long, long, long, long, json_build_object('service', long)
        FROM (SELECT repeat('x', 10000)) AS x (long)";
    sqlx::raw_sql(written).execute(&mut conn).await.expect("writes");
    for too_long in ["repeat('x', 65), 't', NULL", "'e', repeat('x', 129), NULL", "'e', 't', repeat('x', 257)"] {
        let sql =
            format!("INSERT INTO postrider_event (event_id, topic, event_key, payload) VALUES ({too_long}, '{{}}')");
        let refused = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await;
        assert!(refused.is_err(), "{too_long}");
    }

    let routed = store.route(100).await.expect("routes");
    assert_eq!((routed.routed, routed.unheard), (1, 1));
    let routed = store.route(100).await.expect("routes");
    assert_eq!((routed.routed, routed.unheard), (0, 0), "what nobody hears is looked at once");
    while store.fold(500).await.expect("folds").more {}
    let lease = store.claim(&Claim::new("coupon", 10)).await.expect("claims");
    let claimed = &lease.deliveries[0].envelope;
    assert_eq!(claimed.trace_id.as_deref().map(str::len), Some(10_000));
    assert_eq!(claimed.initiator.service.as_deref().map(str::len), Some(10_000));
    let ids: Vec<_> = lease.deliveries.iter().map(|claimed| claimed.id).collect();
    store.settle(lease.token, &ids, History::Keep).await.expect("settles");

    let everything = "INSERT INTO postrider_subscription (topic, consumer, via) VALUES ('*', 'audit', 'local')";
    sqlx::raw_sql(everything).execute(&mut conn).await.expect("subscribes");
    assert_eq!(store.route(100).await.expect("routes").routed, 1, "whoever hears everything hears it");
    while store.fold(500).await.expect("folds").more {}
    database.drop().await;
}

/// The privileges in docs/sql-contract.md: a program that enqueues needs no others, and one that changes
/// subscriptions only those.
#[tokio::test]
async fn postgres_producers_need_few_rights() {
    let (database, store) = Database::migrated().await;
    let mut conn = database.connect().await;
    let role = format!("producer_{}", uuid::Uuid::new_v4().simple());
    let grants = format!(
        "CREATE ROLE {role};
         GRANT SELECT, INSERT ON postrider_event, postrider_delivery TO {role};
         GRANT SELECT, INSERT, UPDATE ON postrider_subscription TO {role};
         GRANT SELECT ON postrider_audience TO {role};
         SET ROLE {role};
         INSERT INTO postrider_subscription (topic, consumer, via) VALUES ('order.paid', 'a', 'pull')"
    );
    sqlx::raw_sql(AssertSqlSafe(grants)).execute(&mut conn).await.expect("grants");
    for _ in 0..2 {
        let draft = Draft::json("order.paid", &7).expect("JSON");
        let mut tx = conn.begin().await.expect("begins");
        let enqueued = Outbox::new(store.clone()).enqueue(&mut tx, draft).await.expect("enqueues");
        tx.commit().await.expect("commits");
        assert!(matches!(enqueued, Enqueued::Accepted(_)), "{enqueued:?}");
    }
    let end = format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}");
    sqlx::raw_sql(AssertSqlSafe(end)).execute(&mut conn).await.expect("cleans up");
    database.drop().await;
}

/// F37: a commit that notifies takes a lock that all such commits share, and fails when the server's queue is full.
/// No producer's transaction notifies.
#[tokio::test]
async fn postgres_producers_do_not_notify() {
    let (database, store) = Database::migrated().await;
    store.register(&Subscription::new("order.paid", "coupon", Via::Local)).await.expect("registers");
    let mut listener = PgListener::connect(&database.url()).await.expect("connects");
    listener.listen("postrider").await.expect("listens");
    let outbox = Outbox::new(store.clone());
    let writers = (0..64).map(|_| async {
        let mut tx = store.begin().await.expect("begins");
        outbox.enqueue(&mut tx, Draft::json("order.paid", &1).expect("is JSON")).await.expect("enqueues");
        store.commit(tx).await.expect("commits");
    });
    futures_util::future::join_all(writers).await;
    // Notifications arrive in the order of commits: those of the producers would arrive before this one.
    store.announce("the test").await.expect("announces");
    assert_eq!(listener.recv().await.expect("hears").payload(), "the test");
    database.drop().await;
}

/// A settle finds its rows by their events, however many other rows there are.
#[tokio::test]
async fn postgres_settles_by_index() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    sqlx::raw_sql(SESSION).execute(&mut conn).await.expect("sets up");
    sqlx::raw_sql(LARGE).execute(&mut conn).await.expect("fills");
    let leased = "SELECT array_agg(event_seq)::text, array_agg(id)::text FROM postrider_delivery WHERE token = 1";
    let (seqs, ids): (String, String) = sqlx::query_as(leased).fetch_one(&mut conn).await.expect("reads");
    let types = "tid[], bigint[], bigint, bigint[], text";
    let settle = plan(&mut conn, types, SETTLE, &format!("'{{}}', '{ids}', 1, '{seqs}', NULL")).await;
    let text = settle.join("\n");
    assert!(!text.contains("Seq Scan") && text.contains("Index Cond: (event_seq = ANY"), "{text}");
    // Those without a key, and of the others the runs from the first of their key: none.
    let removed = &node(&settle, "Delete on postrider_delivery")[0];
    assert!(removed.contains("actual rows=333") || removed.contains("actual rows=334"), "{removed}");
    database.drop().await;
}

/// A claim that continues where another has ended reads nothing before that, and a settle that knows its row
/// addresses searches for none.
#[tokio::test]
async fn postgres_goes_straight_to_what_it_knows() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    sqlx::raw_sql(SESSION).execute(&mut conn).await.expect("sets up");
    sqlx::raw_sql(LARGE).execute(&mut conn).await.expect("fills");
    let last = "SELECT due_at::text, id FROM postrider_delivery WHERE lane = 'coupon' AND place = 0 AND due_at <= now()
        AND lock_until IS NULL ORDER BY due_at DESC, id DESC OFFSET 9 LIMIT 1";
    let (due_at, id): (String, i64) = sqlx::query_as(last).fetch_one(&mut conn).await.expect("reads");
    let types = "varchar, smallint[], bigint, bigint, varchar, bigint, timestamptz, bigint";
    let values = format!("'coupon', NULL, 500, 42, 'me', 30000, '{due_at}', {id}");
    let claim = plan(&mut conn, types, CLAIM, &values).await;
    let scan = node(&claim, "Index Scan using postrider_delivery_due").join("\n");
    assert!(scan.contains("actual rows=9") && scan.contains("(ROW(due_at, id) > ROW("), "{scan}");
    assert!(!scan.contains("Rows Removed"), "{scan}");

    let leased = "SELECT array_agg(ctid)::text, array_agg(id)::text FROM postrider_delivery WHERE token = 42";
    let (addresses, ids): (String, String) = sqlx::query_as(leased).fetch_one(&mut conn).await.expect("reads");
    let types = "tid[], bigint[], bigint, bigint[], text";
    let settle = plan(&mut conn, types, SETTLE, &format!("'{addresses}', '{ids}', 42, '{{}}', NULL")).await;
    assert!(node(&settle, "Delete on postrider_delivery")[0].contains("actual rows=9"), "{settle:#?}");
    assert!(most_rows(&settle) <= 9, "{settle:#?}");
    database.drop().await;
}

/// F17: a row that a heartbeat has moved is not at the address of its claim. Nothing behind it is settled before it
/// is found.
#[tokio::test]
async fn postgres_settles_nothing_behind_a_row_that_has_moved() {
    let (database, store) = Database::migrated().await;
    store.register(&Subscription::new("order.paid", "coupon", Via::Local)).await.expect("registers");
    let outbox = Outbox::new(store.clone());
    let drafts = (0..3).map(|n| Draft::text("order.paid", "text/plain", n.to_string()).key("k"));
    let mut tx = store.begin().await.expect("begins");
    outbox.enqueue_many(&mut tx, drafts).await.expect("enqueues");
    store.commit(tx).await.expect("commits");
    let lease = store.claim_keyed(&Claim::new("coupon", 3), DeadHead::Hold).await.expect("claims");
    let mut conn = database.connect().await;
    let rows = "SELECT array_agg(ctid ORDER BY id)::text, array_agg(id ORDER BY id)::text FROM postrider_delivery";
    let (addresses, ids): (String, String) = sqlx::query_as(rows).fetch_one(&mut conn).await.expect("reads");
    let second = lease.ids()[1];
    store.extend(lease.token, &[second], std::time::Duration::from_secs(60)).await.expect("extends");
    prepare(&mut conn, "settle", "tid[], bigint[], bigint, bigint[], text", SETTLE).await;
    let settle = format!("EXECUTE settle ('{addresses}', '{ids}', {}, '{{}}', NULL)", lease.token.0);
    let settled: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(settle)).fetch_one(&mut conn).await.expect("settles");
    assert_eq!(settled, [lease.ids()[0].number], "the stretch before it");
    let rest = store.settle(lease.token, &lease.ids()[1..], History::Omit).await.expect("settles");
    assert_eq!(rest, lease.ids()[1..]);
    database.drop().await;
}

/// Deliveries whose events were deleted by hand do not block their lane.
#[tokio::test]
async fn postgres_deliveries_without_an_event_do_not_block_their_lane() {
    let (database, store) = Database::migrated().await;
    store.register(&Subscription::new("order.paid", "coupon", Via::Local)).await.expect("registers");
    let outbox = Outbox::new(store.clone());
    for key in [None, Some("k")] {
        for id in ["deleted", "kept"] {
            let draft = Draft::text("order.paid", "text/plain", "7").event_id(id);
            let draft = key.iter().fold(draft, |draft, key| draft.key(*key));
            let mut tx = store.begin().await.expect("begins");
            outbox.enqueue(&mut tx, draft).await.expect("enqueues");
            store.commit(tx).await.expect("commits");
        }
        let delete = "DELETE FROM postrider_event WHERE event_id = 'deleted'";
        sqlx::raw_sql(delete).execute(&mut database.connect().await).await.expect("deletes");
        let claim = Claim::new("coupon", 1);
        let mut claimed = Vec::new();
        for _ in 0..3 {
            let lease = match key {
                None => store.claim(&claim).await.expect("claims"),
                Some(_) => store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims"),
            };
            claimed.extend(lease.deliveries.iter().map(|delivery| delivery.envelope.event_id.to_string()));
            store.settle(lease.token, &lease.ids(), History::Omit).await.expect("settles");
        }
        assert_eq!(claimed, ["kept"], "{key:?}");
        let forget = "DELETE FROM postrider_event";
        sqlx::raw_sql(forget).execute(&mut database.connect().await).await.expect("deletes");
    }
    database.drop().await;
}

/// One claim gets past windows full of deliveries that must be parked.
#[tokio::test]
async fn postgres_one_claim_parks_many_windows() {
    let (database, store) = Database::migrated().await;
    sqlx::raw_sql(
        "INSERT INTO postrider_event (event_id, topic, payload, event_key, waits_for)
         SELECT 'e' || n, 'order.paid', '{}', CASE WHEN n <= 3000 THEN 'dead' ELSE 'alive' END, NULL FROM generate_series(1, 3001) n;
         INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
         SELECT seq, 'coupon', 7, CASE WHEN event_id = 'e1' THEN 3 ELSE 1 END, event_key, now() FROM postrider_event",
    )
    .execute(&mut database.connect().await)
    .await
    .expect("fills");
    let lease = store.claim_keyed(&Claim::new("coupon", 10), DeadHead::Hold).await.expect("claims");
    assert_eq!(lease.deliveries.len(), 1, "the one behind them");
    assert_eq!(lease.deliveries[0].envelope.event_id.as_str(), "e3001");
    database.drop().await;
}

/// F38: a pooler that shares sessions between transactions is refused at the start, with advice.
#[tokio::test]
async fn pgbouncer_with_transaction_pooling_is_refused() {
    let pooler =
        std::env::var("POSTRIDER_TEST_PGBOUNCER").expect("POSTRIDER_TEST_PGBOUNCER is not set: run `make services`");
    let (database, direct) = Database::migrated().await;
    let refused = PostgresStore::connect(&database.on(&pooler)).await.expect_err("refused").to_string();
    assert!(refused.contains("pool_mode = session") && refused.contains("direct connection"), "{refused}");
    // The caller's own transactions may use it: one transaction has one session.
    let mut conn = PgConnection::connect(&database.on(&pooler)).await.expect("connects");
    let mut tx = conn.begin().await.expect("begins");
    let outbox = Outbox::new(direct.clone());
    outbox.enqueue(&mut tx, Draft::text("order.paid", "text/plain", "7").event_id("pooled")).await.expect("enqueues");
    tx.commit().await.expect("commits");
    assert!(direct.find("pooled").await.expect("reads").is_some());
    database.drop().await;
}

/// A caller at REPEATABLE READ or SERIALIZABLE enqueues as usual. For a duplicate that is committed meanwhile the
/// caller gets `TransactionLost` and must run the transaction again.
#[tokio::test]
async fn postgres_callers_at_stricter_isolation_are_asked_to_retry() {
    let (database, store) = Database::migrated().await;
    store.register(&Subscription::new("order.paid", "coupon", Via::Local)).await.expect("registers");
    let outbox = Outbox::new(store.clone());
    let event = |id: &str| Draft::text("order.paid", "text/plain", "7").event_id(id);
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut conn = database.connect().await;
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        let mut tx = conn.begin_with(AssertSqlSafe(begin.clone())).await.expect("begins");
        let accepted = outbox.enqueue(&mut tx, event(level)).await.expect("enqueues");
        assert!(matches!(accepted, Enqueued::Accepted(_)));
        tx.commit().await.expect("commits");

        let mut tx = conn.begin_with(AssertSqlSafe(begin.clone())).await.expect("begins");
        let known = outbox.enqueue(&mut tx, event(level)).await.expect("a known one");
        assert!(matches!(known, Enqueued::Duplicate(_)), "committed before: {known:?}");
        let contested = format!("contested {level}");
        let mut other = store.begin().await.expect("begins");
        outbox.enqueue(&mut other, event(&contested)).await.expect("enqueues");
        store.commit(other).await.expect("commits");
        let lost = outbox.enqueue(&mut tx, event(&contested)).await.expect_err("committed after this snapshot");
        assert!(matches!(lost, Error::TransactionLost(_)), "{lost:?}");
        tx.rollback().await.expect("rolls back");

        let mut tx = conn.begin_with(AssertSqlSafe(begin)).await.expect("begins");
        assert!(matches!(outbox.enqueue(&mut tx, event(&contested)).await, Ok(Enqueued::Duplicate(_))), "run again");
    }
    database.drop().await;
}

/// An older or missing schema is refused with the command to run; one that the printed script has created is
/// accepted.
#[tokio::test]
async fn postgres_schema_made_by_another_tool_is_accepted() {
    let database = Database::empty().await;
    let store = PostgresStore::connect(&database.url()).await.expect("connects");
    let refused = store.check_schema().await.expect_err("empty").to_string();
    assert!(
        refused.contains("version 0") && refused.contains("postrider migrate up --store 'postgres://"),
        "{refused}"
    );

    psql(&database, &migrations(0));
    store.check_schema().await.expect("up to date");
    store.migrate().await.expect("nothing to do");

    let mut conn = database.connect().await;
    sqlx::raw_sql("UPDATE postrider_migrations SET version = 9999 WHERE version = 1")
        .execute(&mut conn)
        .await
        .expect("updates");
    assert!(matches!(store.check_schema().await, Err(Error::SchemaTooNew { found: 9999, .. })));
    database.drop().await;
}

/// docs/schema.md: the tables live in a schema of their own, beside the program's, and every session finds them.
#[tokio::test]
async fn postgres_tables_may_live_in_a_schema_of_their_own() {
    let database = Database::empty().await;
    database
        .at_server(format!("ALTER ROLE CURRENT_USER IN DATABASE {} SET search_path = public, postrider", database.name))
        .await;
    sqlx::raw_sql("CREATE SCHEMA postrider").execute(&mut database.connect().await).await.expect("creates");
    let migrator = format!("{}?options=-csearch_path%3Dpostrider", database.url());
    PostgresStore::connect(&migrator).await.expect("connects").migrate().await.expect("migrates");

    let store = PostgresStore::connect(&database.url()).await.expect("connects");
    store.check_schema().await.expect("finds the tables");
    store.set_subscription(&Subscription::new("order.paid", "coupon", Via::Pull)).await.expect("subscribes");
    let mut tx = store.begin().await.expect("begins");
    let paid = Draft::json("order.paid", &7).expect("JSON");
    assert!(matches!(Outbox::new(store.clone()).enqueue(&mut tx, paid).await, Ok(Enqueued::Accepted(_))));
    store.commit(tx).await.expect("commits");
    assert_eq!(store.counts().await.expect("counts")["coupon"].new, 1);
    let schemas = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'postrider%'";
    let schemas: Vec<String> =
        sqlx::query_scalar(schemas).fetch_all(&mut database.connect().await).await.expect("reads");
    assert_eq!(schemas, ["postrider"]);
    database.drop().await;
}

/// A script of the migrations after a version completes a schema of that version.
#[tokio::test]
async fn postgres_schema_of_an_older_version_is_completed_by_another_tool() {
    let database = Database::empty().await;
    let store = PostgresStore::connect(&database.url()).await.expect("connects");
    let (all, newer) = (migrations(0), migrations(6));
    psql(&database, all.strip_suffix(&newer).expect("the newer ones are the end of all"));
    assert!(matches!(store.check_schema().await, Err(Error::SchemaOutOfDate { found: 6, .. })));
    psql(&database, &newer);
    store.check_schema().await.expect("up to date");
    store.migrate().await.expect("nothing to do");
    drop(store);
    database.drop().await;
}

/// Runs a script in `psql`.
fn psql(database: &Database, script: &str) {
    let file = std::env::temp_dir().join(format!("{}.sql", uuid::Uuid::new_v4()));
    std::fs::write(&file, script).expect("writes");
    let psql =
        Command::new("psql").args(["-q", "-v", "ON_ERROR_STOP=1", "-d", &database.url(), "-f"]).arg(&file).output();
    let psql = psql.expect("psql runs");
    assert!(psql.status.success(), "{}", String::from_utf8_lossy(&psql.stderr));
    std::fs::remove_file(&file).expect("removes");
}

/// How many sessions of this database have the name of the store's.
async fn named_sessions(pool: &sqlx::PgPool) -> i64 {
    let named =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'postrider'";
    sqlx::query_scalar(named).fetch_one(pool).await.expect("counts")
}

/// The store adds at most five named connections to the program's pool.
#[tokio::test]
async fn postgres_stores_use_the_programs_own_pool() {
    let database = Database::empty().await;
    let pool =
        sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&database.url()).await.expect("connects");
    sqlx::query(MARKS).execute(&pool).await.expect("creates");
    let store = PostgresStore::from_pool(pool.clone()).await.expect("takes the pool");
    crate::pool::transactions_of_the_programs_pool(store.clone(), |conn| {
        Box::pin(async move { sqlx::query(MARK).execute(conn).await.map(drop) })
    })
    .await;
    assert!((1..=5).contains(&named_sessions(&pool).await));
    // Sessions of a store without such a pool have the name too.
    let before = named_sessions(&pool).await;
    let other = PostgresStore::connect(&database.url()).await.expect("connects");
    assert!(named_sessions(&pool).await > before);
    drop((store, other));
    database.drop().await;
}

/// A.7: an effect is found by its business key, and consumers that name none do not fill the index.
#[tokio::test]
async fn postgres_finds_business_keys_by_index() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    let fill = "INSERT INTO postrider_inbox (consumer, event_id, topic, idempotency_key)
        SELECT 'c', 'e' || n, 't', CASE WHEN n % 10 = 0 THEN 'order:' || n END FROM generate_series(1, 20000) n";
    sqlx::raw_sql(fill).execute(&mut conn).await.expect("fills");
    for analysed in [false, true] {
        if analysed {
            sqlx::raw_sql("ANALYZE").execute(&mut conn).await.expect("analyses");
        }
        let by_key = "SELECT consumer, event_id FROM postrider_inbox WHERE idempotency_key = $1";
        let plan = plan(&mut conn, "text", by_key, "'order:70'").await;
        let text = plan.join("\n");
        assert!(text.contains("postrider_inbox_key") && most_rows(&plan) == 1, "{text}");
    }
    database.drop().await;
}

/// G.11: a story reads its rows by index, and so does a look at the keys behind dead deliveries.
#[tokio::test]
async fn postgres_tells_stories_by_index() {
    let (database, _store) = Database::migrated().await;
    let mut conn = database.connect().await;
    let fill = "
        INSERT INTO postrider_inbox (consumer, event_id, topic) SELECT 'c', 'e' || n, 't' FROM generate_series(1, 50000) n;
        INSERT INTO postrider_idempotency (scope, key, fingerprint, status, token, lock_until)
        SELECT 's' || n % 100, 'k' || n, '', 'SUCCESS', n, now() FROM generate_series(1, 50000) n;
        INSERT INTO postrider_delivery (event_seq, lane, shard, place, event_key, due_at)
        SELECT n, 'c', 0, CASE WHEN n % 1000 = 1 THEN 3 ELSE 2 END, 'key' || n / 1000, now() FROM generate_series(1, 50000) n";
    for sql in [SESSION, fill] {
        sqlx::raw_sql(sql).execute(&mut conn).await.expect("sets up");
    }
    let waiting = "SELECT count(*) FROM (SELECT 1 AS one FROM postrider_delivery d
        WHERE d.lane = $1 AND d.event_key = $2 AND d.event_seq > $3 AND d.place <> 3 LIMIT $4) d";
    let dead = "SELECT event_key, min(event_seq) FROM (SELECT event_key, event_seq FROM postrider_delivery
        WHERE lane = $1 AND (place = 3) AND event_key IS NOT NULL LIMIT $2) d
        GROUP BY event_key ORDER BY min(event_seq) LIMIT $3";
    for analysed in [false, true] {
        if analysed {
            sqlx::raw_sql("ANALYZE").execute(&mut conn).await.expect("analyses");
        }
        for (sql, types, values, index, most) in [
            (
                sql!("stories/received"),
                "text",
                r#"'[["c","e70"],["c","e71"],["c","none"]]'"#,
                "postrider_inbox_pkey",
                3,
            ),
            (sql!("stories/keys_named"), "text, bigint", r#"'["k70","none"]', 1000"#, "postrider_idempotency_key", 2),
            (waiting, "text, text, bigint, bigint", "'c', 'key7', 7001, 1000", "postrider_delivery_key", 1_000),
            (dead, "text, bigint, bigint", "'c', 10000, 50", "postrider_delivery_due", 50),
        ] {
            let plan = plan(&mut conn, types, sql, values).await;
            let text = plan.join("\n");
            assert!(text.contains(index) && !text.contains("Seq Scan") && most_rows(&plan) <= most, "{text}");
        }
    }
    database.drop().await;
}
