//! SQLite: its plans, its one writer, its shell, and transactions that SQLite ends itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use postrider::idempotency::{Idempotency, IdempotencyError};
use postrider::prelude::*;
use postrider::status::EventStatus;
use postrider::store::sqlite::{SqliteStore, migrations};
use postrider::store::{
    Appended, Buried, Claim, Completed, Completion, DeadHead, Failed, Filter, History, Key, KeyState, List, Prunable,
    Prune, Receipt, Redriven, Report, Routing,
};
use postrider::{Draft, Enqueued, Error, Jobs, Outbox, Schedule, Subscription, Unheard, Via};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

use crate::pool::{MARK, MARKS};

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("postrider-sqlite-{}", uuid::Uuid::new_v4())))
    }

    fn file(&self) -> PathBuf {
        self.0.join("deep/inside/outbox.db")
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.file().display())
    }

    async fn store(&self) -> SqliteStore {
        let store = SqliteStore::connect(&self.url()).await.expect("connects");
        store.migrate().await.expect("migrates");
        store
    }

    /// A connection outside the store, like one of another process.
    async fn stranger(&self) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(self.file())
            .busy_timeout(Duration::from_millis(1))
            .connect()
            .await
            .expect("connects")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn run(conn: &mut SqliteConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.expect(sql);
}

fn draft(topic: &str, id: &str) -> Draft {
    Draft::json(topic, &serde_json::json!({ "id": id })).expect("json").event_id(id)
}

async fn enqueue(store: &SqliteStore, drafts: Vec<Draft>) -> Vec<Enqueued> {
    let mut tx = store.begin().await.expect("begins");
    let outbox = Outbox::new(store.clone());
    let enqueued = outbox.enqueue_many(&mut tx, drafts).await.expect("enqueues");
    store.commit(tx).await.expect("commits");
    enqueued
}

async fn subscribe(store: &SqliteStore, topic: &str, consumer: &str, via: Via) {
    let subscription = Subscription::new(topic, consumer, via);
    store.register(&subscription).await.expect("registers");
}

/// An event without a key from enqueue to settle, and its history.
#[tokio::test]
async fn sqlite_carries_an_event_from_enqueue_to_settle() {
    let folder = Folder::new();
    let store = folder.store().await;
    store.check_schema().await.expect("up to date");
    subscribe(&store, "order.paid", "points", Via::Local).await;
    subscribe(&store, "*", "points", Via::Local).await;
    subscribe(&store, "order.paid", "crm", Via::External).await;
    let payload = Draft::text("order.paid", "text/plain", "\"quoted\" \\ \u{1}\n 订单 🎉 \u{2028}").event_id("odd");
    assert_eq!(enqueue(&store, vec![draft("order.paid", "a"), payload, draft("order.paid", "a")]).await.len(), 3);

    let lease = store.claim(&Claim::new("points", 10)).await.expect("claims");
    let ids: Vec<_> = lease.deliveries.iter().map(|d| d.envelope.event_id.as_str()).collect();
    assert_eq!(ids, ["a", "odd"]);
    assert_eq!(lease.deliveries[1].envelope.payload, "\"quoted\" \\ \u{1}\n 订单 🎉 \u{2028}");
    assert!(store.claim(&Claim::new("points", 10)).await.expect("claims").deliveries.is_empty());

    let failed = Failed { id: lease.deliveries[1].id, after: Duration::from_secs(60), error: "no".into(), code: None };
    let retried = store.retry(lease.token, &[failed.clone(), failed], History::Keep).await.expect("retries");
    assert_eq!(retried, [lease.deliveries[1].id]);
    let settled = store.settle(lease.token, &lease.ids(), History::Keep).await.expect("settles");
    assert_eq!(settled, [lease.deliveries[0].id]);
    let due = store.next_due(&["points"]).await.expect("asks")[0].expect("waits");
    assert!(due > Duration::from_secs(50) && due <= Duration::from_secs(60), "{due:?}");

    let report = Report {
        event_id: "a".into(),
        consumer: "crm".into(),
        success: true,
        callback_id: Some("c".into()),
        ..Report::default()
    };
    assert_eq!(store.append_consumption(&report).await.expect("appends"), Appended::Attempt(1));
    assert_eq!(store.append_consumption(&report).await.expect("appends"), Appended::Repeated(1));
    let stranger = Report { consumer: "points".into(), ..report };
    assert_eq!(store.append_consumption(&stranger).await.expect("appends"), Appended::NotExpected);

    let found = store.find("a").await.expect("finds").expect("is there");
    assert_eq!((found.routing, found.deliveries.len()), (Routing::Routed, 0));
    let history: Vec<_> = found.consumptions.iter().map(|c| (c.consumer.as_str(), c.attempt, c.success)).collect();
    assert_eq!(history, [("crm", 0, None), ("crm", 1, Some(true)), ("points", 1, Some(true))]);

    assert_eq!(store.redrive("odd", "points", None).await.expect("redrives"), Redriven::Due);
    assert_eq!(store.redrive("a", "points", None).await.expect("redrives"), Redriven::Made);
    let lease = store.claim(&Claim::new("points", 10)).await.expect("claims");
    let buried = Buried { id: lease.deliveries[0].id, tried: false, error: "gone".into(), code: None };
    assert_eq!(store.bury(lease.token, &[buried], History::Keep).await.expect("buries").len(), 1);
    let counts = store.counts().await.expect("counts");
    assert_eq!((counts["points"].dead, counts["points"].processing), (1, 1));
    store.release(lease.token, &lease.ids()).await.expect("releases");
    assert!(store.oldest_pending().await.expect("asks").is_some());
    let prune = Prune { what: Prunable::Events, older_than: Duration::ZERO, after: 0, limit: 10 };
    assert_eq!(store.prune(&prune).await.expect("prunes").removed, 0);
}

/// The results for known ids, and for topics without a subscriber.
#[tokio::test]
async fn sqlite_distinguishes_duplicates_conflicts_and_events_without_a_subscription() {
    let folder = Folder::new();
    let store = folder.store().await;
    let kept = enqueue(&store, vec![draft("lonely", "a"), draft("lonely", "a")]).await;
    assert!(matches!(&kept[..], [Enqueued::Unheard(_), Enqueued::Duplicate(_)]), "{kept:?}");
    let outbox = Outbox::new(store.clone());
    let mut tx = store.begin().await.expect("begins");
    let conflict = outbox.enqueue(&mut tx, draft("other", "a")).await;
    assert!(matches!(conflict, Err(Error::IdConflict { .. })), "{conflict:?}");
    let picky = outbox.clone().unheard(Unheard::Skip);
    let skipped = picky.enqueue_many(&mut tx, [draft("lonely", "a"), draft("lonely", "b")]).await.expect("skips");
    assert!(matches!(&skipped[..], [Enqueued::Duplicate(_), Enqueued::Skipped(_)]), "{skipped:?}");
    let refused = outbox.clone().unheard(Unheard::Refuse).enqueue(&mut tx, draft("lonely", "b")).await;
    assert!(matches!(refused, Err(Error::Unheard { .. })), "{refused:?}");
    drop(tx);
    subscribe(&store, "lonely", "late", Via::Pull).await;
    assert_eq!(store.route(10).await.expect("routes").routed, 1);
    assert_eq!(store.claim(&Claim::new("late", 10)).await.expect("claims").deliveries.len(), 1);
}

/// Runs of keys, first deliveries that are delayed or dead, and settling out of order.
#[tokio::test]
async fn sqlite_keeps_the_order_of_a_key() {
    let folder = Folder::new();
    let store = folder.store().await;
    subscribe(&store, "t", "c", Via::Local).await;
    let keyed = |key: &str, n: u32| draft("t", &format!("{key}{n}")).key(key);
    let mut drafts: Vec<_> = (0..600).map(|n| keyed("a", n)).collect();
    drafts.extend((0..3).map(|n| keyed("b", n)));
    enqueue(&store, drafts).await;
    let claim = Claim::new("c", 10);
    let names = |lease: &postrider::store::Lease| -> Vec<String> {
        lease.deliveries.iter().map(|d| d.envelope.event_id.to_string()).collect()
    };

    // The window (256) is full of `a`; one claimer gets its run.
    let first = store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims");
    assert_eq!(names(&first), (0..10).map(|n| format!("a{n}")).collect::<Vec<_>>());
    assert!(store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims").deliveries.is_empty());
    // Out of order: refused, unless the earlier ones are settled with it.
    assert!(store.settle(first.token, &first.ids()[1..3], History::Omit).await.expect("settles").is_empty());
    assert_eq!(store.settle(first.token, &first.ids()[..3], History::Omit).await.expect("settles").len(), 3);
    // The rest of a failed delivery's run is released without an attempt.
    let failed = Failed { id: first.ids()[3], after: Duration::from_secs(60), error: "no".into(), code: None };
    assert_eq!(store.retry(first.token, &[failed], History::Omit).await.expect("retries").len(), 1);
    assert!(store.extend(first.token, &first.ids(), Duration::from_secs(9)).await.expect("extends").is_empty());
    let waiting = store.find("a4").await.expect("finds").expect("is there");
    assert_eq!(waiting.deliveries[0].attempts, 0);

    // `a` waits for its fourth delivery; one claim parks the followers, window by window, and reaches `b`.
    let second = store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims");
    assert_eq!(names(&second), ["b0", "b1", "b2"]);
    let parked = store.find("a599").await.expect("finds").expect("is there");
    assert!(!parked.deliveries[0].held && parked.deliveries[0].due_at > parked.created_at);

    // A dead first delivery holds the rest of its key.
    let buried = Buried { id: second.ids()[0], tried: true, error: "no".into(), code: None };
    store.bury(second.token, &[buried], History::Omit).await.expect("buries");
    assert!(store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims").deliveries.is_empty());
    assert_eq!(store.counts().await.expect("counts")["c"].held, 2);
    // With `Skip` it is passed over.
    let skipped = store.claim_keyed(&claim, DeadHead::Skip).await.expect("claims");
    assert_eq!(names(&skipped), ["b1", "b2"]);
    store.release(skipped.token, &skipped.ids()).await.expect("releases");
    assert!(store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims").deliveries.is_empty());
    // After a redrive it comes first.
    assert_eq!(store.redrive("b0", "c", None).await.expect("redrives"), Redriven::Due);
    let third = store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims");
    assert_eq!(names(&third), ["b0", "b1", "b2"]);
    // The retried one too, and its followers are due with it.
    assert_eq!(store.redrive("a3", "c", None).await.expect("redrives"), Redriven::Due);
    let fourth = store.claim_keyed(&Claim::new("c", 500), DeadHead::Hold).await.expect("claims");
    assert_eq!(names(&fourth)[..3], ["a3", "a4", "a5"]);
    assert_eq!(fourth.deliveries.len(), 500);
    assert_eq!(store.settle(fourth.token, &fourth.ids(), History::Omit).await.expect("settles").len(), 500);
}

/// After the dead first delivery was deleted by hand, the next event of the key releases the held ones permanently.
#[tokio::test]
async fn sqlite_releases_what_was_held_behind_a_deleted_delivery() {
    let folder = Folder::new();
    let store = folder.store().await;
    subscribe(&store, "t", "c", Via::Local).await;
    enqueue(&store, (0..3).map(|n| draft("t", &n.to_string()).key("k")).collect()).await;
    let claim = Claim::new("c", 10);
    let lease = store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims");
    let buried = Buried { id: lease.ids()[0], tried: true, error: "no".into(), code: None };
    store.bury(lease.token, &[buried], History::Keep).await.expect("buries");
    assert!(store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims").deliveries.is_empty());
    run(&mut folder.stranger().await, "DELETE FROM postrider_delivery WHERE dead").await;
    enqueue(&store, vec![draft("t", "3").key("k")]).await;
    let lease = store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims");
    assert_eq!(lease.deliveries.len(), 3);
    assert_eq!(store.counts().await.expect("counts")["c"].held, 0);
}

/// After an event but not its deliveries was deleted by hand, they are leased and skipped, and the others are
/// delivered.
#[tokio::test]
async fn sqlite_passes_over_deliveries_without_an_event() {
    let folder = Folder::new();
    let store = folder.store().await;
    subscribe(&store, "t", "c", Via::Local).await;
    enqueue(&store, vec![draft("t", "a"), draft("t", "b"), draft("t", "c").key("k"), draft("t", "d").key("k")]).await;
    run(&mut folder.stranger().await, "DELETE FROM postrider_event WHERE event_id IN ('a', 'c')").await;
    let claim = Claim::new("c", 10);
    let plain = store.claim(&claim).await.expect("claims");
    let keyed = store.claim_keyed(&claim, DeadHead::Hold).await.expect("claims");
    for (lease, event) in [(plain, "b"), (keyed, "d")] {
        assert_eq!(lease.deliveries.len(), 1);
        assert_eq!(lease.deliveries[0].envelope.event_id.as_str(), event);
    }
}

/// Named leases and idempotency keys.
#[tokio::test]
async fn sqlite_leases_names_and_keys() {
    let folder = Folder::new();
    let store = folder.store().await;
    let lease = Duration::from_secs(30);
    let token = store.acquire_lease("cron", "a", lease).await.expect("asks").expect("is free");
    assert_eq!(store.acquire_lease("cron", "b", lease).await.expect("asks"), None);
    assert!(store.extend_lease("cron", token, lease).await.expect("extends"));
    assert!(store.release_lease("cron", token).await.expect("releases"));
    assert!(store.acquire_lease("cron", "b", lease).await.expect("asks").is_some());

    let key = Key { scope: "pay", key: "k" };
    let mut tx = store.begin().await.expect("begins");
    let KeyState::Begun(token) = store.begin_key(&mut tx, &key, b"f", lease).await.expect("begins") else {
        panic!("the key is free");
    };
    assert_eq!(store.begin_key(&mut tx, &key, b"f", lease).await.expect("asks"), KeyState::InProgress);
    assert_eq!(store.begin_key(&mut tx, &key, b"g", lease).await.expect("asks"), KeyState::Mismatch);
    assert!(store.fail_key(&mut tx, &key, token, "no").await.expect("fails"));
    let KeyState::TakenOver(token) = store.begin_key(&mut tx, &key, b"f", lease).await.expect("begins") else {
        panic!("the key has failed");
    };
    assert!(store.complete_key(&mut tx, &key, token, "42").await.expect("completes"));
    assert_eq!(store.begin_key(&mut tx, &key, b"f", lease).await.expect("asks"), KeyState::Done("42".into()));
}

/// F55: if a statement ends the consumer's transaction, and the consumer ignores its error, nothing is settled, and
/// the only writer still works.
#[tokio::test]
async fn sqlite_completes_nothing_in_a_transaction_that_has_ended() {
    let folder = Folder::new();
    let store = folder.store().await;
    subscribe(&store, "t", "c", Via::Local).await;
    enqueue(&store, vec![draft("t", "a")]).await;
    run(&mut folder.stranger().await, "CREATE TABLE effect (n INTEGER PRIMARY KEY); INSERT INTO effect VALUES (1)")
        .await;
    let lease = store.claim(&Claim::new("c", 1)).await.expect("claims");
    let completion = Completion {
        consumer: "c",
        token: lease.token,
        history: History::Keep,
        completed: &[Completed { event_id: "a", delivery: lease.deliveries[0].id, result: None }],
    };
    let receipt = Receipt { consumer: "c", event_id: "a", topic: "t", tenant_id: None, idempotency_key: None };

    let mut tx = store.begin().await.expect("begins");
    assert!(store.receive(&mut tx, &receipt).await.expect("receives"));
    let swallowed = sqlx::query("INSERT OR ROLLBACK INTO effect VALUES (1)").execute(&mut *tx).await;
    assert!(swallowed.is_err());
    let lost = store.complete(&mut tx, &completion).await;
    assert!(matches!(lost, Err(Error::LeaseLost)), "{lost:?}");
    let lost = store.commit(tx).await;
    assert!(matches!(lost, Err(Error::TransactionLost(_))), "{lost:?}");
    let found = store.find("a").await.expect("finds").expect("is there");
    assert_eq!((found.deliveries.len(), found.consumptions.len()), (1, 0));

    let mut tx = store.begin().await.expect("the writer works on");
    assert!(store.receive(&mut tx, &receipt).await.expect("receives"));
    store.complete(&mut tx, &completion).await.expect("completes");
    store.commit(tx).await.expect("commits");
    let found = store.find("a").await.expect("finds").expect("is there");
    assert_eq!((found.deliveries.len(), found.consumptions.len()), (0, 1));
    let mut tx = store.begin().await.expect("begins");
    assert!(!store.receive(&mut tx, &receipt).await.expect("receives"));
    assert!(matches!(store.complete(&mut tx, &completion).await, Err(Error::LeaseLost)));
}

/// F35: a transaction has the write lock from its first statement on, so no other can write between its read and its
/// write.
#[tokio::test]
async fn sqlite_holds_the_write_lock_before_it_reads() {
    let folder = Folder::new();
    let store = folder.store().await;
    let mut stranger = folder.stranger().await;
    let mut tx = store.begin().await.expect("begins");
    sqlx::query("SELECT count(*) FROM postrider_event").fetch_one(&mut *tx).await.expect("reads");
    let refused = sqlx::query("BEGIN IMMEDIATE").execute(&mut stranger).await;
    assert!(refused.is_err(), "the lock was free");
    Outbox::new(store.clone()).enqueue(&mut tx, draft("t", "a")).await.expect("writes");
    store.commit(tx).await.expect("commits");
}

/// F35: another process holds the write lock. Every operation of the store waits for it, also a transaction that reads first, and
/// no BUSY reaches the caller.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_waits_for_another_process_that_writes() {
    use std::io::Write as _;
    let folder = Folder::new();
    let store = folder.store().await;
    subscribe(&store, "t", "c", Via::Local).await;
    let mut stranger = folder.stranger().await;
    let mut other =
        Command::new("sqlite3").arg(folder.file()).stdin(std::process::Stdio::piped()).spawn().expect("runs");
    let mut commands = other.stdin.take().expect("a pipe");
    commands.write_all(b".timeout 30000\n").expect("a command");
    for round in 0..20 {
        let change =
            "INSERT INTO postrider_lease VALUES ('x', 'x', 1, 1, 1) ON CONFLICT DO UPDATE SET token = token + 1";
        commands.write_all(format!("BEGIN IMMEDIATE; {change};\n").as_bytes()).expect("a command");
        while sqlx::query("BEGIN IMMEDIATE").execute(&mut stranger).await.is_ok() {
            run(&mut stranger, "ROLLBACK").await;
            tokio::task::yield_now().await;
        }
        let mut ours = tokio::spawn({
            let store = store.clone();
            async move {
                let mut tx = store.begin().await.expect("begins");
                sqlx::query("SELECT count(*) FROM postrider_event").fetch_one(&mut *tx).await.expect("reads");
                let event = draft("t", &format!("e{round}"));
                Outbox::new(store.clone()).enqueue(&mut tx, event).await.expect("writes");
                store.commit(tx).await.expect("commits");
                let lease = store.claim(&Claim::new("c", 10)).await?;
                store.settle(lease.token, &lease.ids(), History::Keep).await
            }
        });
        // There is no signal for a wait on a lock, so the test checks that nothing happens.
        let waits = tokio::time::timeout(Duration::from_millis(20), &mut ours).await;
        assert!(waits.is_err(), "did not wait: {waits:?}");
        commands.write_all(b"COMMIT;\n").expect("a command");
        assert_eq!(ours.await.expect("runs").expect("never busy").len(), 1);
    }
    drop(commands);
    assert!(other.wait().expect("ends").success(), "the other process was not refused either");
    let changes: i64 = sqlx::query_scalar("SELECT token FROM postrider_lease WHERE name = 'x'")
        .fetch_one(&mut stranger)
        .await
        .expect("its row");
    assert_eq!(changes, 20);
}

/// F35: the error for a caller's own transaction that reads first says how to begin it.
#[tokio::test]
async fn sqlite_advises_a_deferred_transaction_to_begin_immediate() {
    let folder = Folder::new();
    let store = folder.store().await;
    let mut deferred = folder.stranger().await;
    run(&mut deferred, "BEGIN; SELECT * FROM postrider_event").await;
    enqueue(&store, vec![draft("t", "a")]).await;
    let lost = Outbox::new(store.clone()).enqueue(&mut deferred, draft("t", "b")).await;
    let Err(Error::TransactionLost(source)) = lost else {
        panic!("{lost:?}");
    };
    assert!(source.to_string().contains("BEGIN IMMEDIATE"), "{source}");
}

/// F42: five instances start at once on a file that does not exist.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_is_migrated_by_five_at_once() {
    for _ in 0..10 {
        let folder = Folder::new();
        let start = std::sync::Arc::new(tokio::sync::Barrier::new(5));
        let instances: Vec<_> = (0..5)
            .map(|_| {
                let (url, start) = (folder.url(), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    let store = SqliteStore::connect(&url).await?;
                    store.migrate().await?;
                    store.check_schema().await
                })
            })
            .collect();
        for instance in instances {
            instance.await.expect("runs").expect("migrates");
        }
    }
}

/// A missing schema, and one that is newer than this program.
#[tokio::test]
async fn sqlite_refuses_a_schema_of_another_version() {
    let folder = Folder::new();
    let store = SqliteStore::connect(&folder.url()).await.expect("connects");
    let old = store.check_schema().await;
    assert!(matches!(old, Err(Error::SchemaOutOfDate { found: 0, .. })), "{old:?}");
    store.migrate().await.expect("migrates");
    store.migrate().await.expect("has nothing left to do");
    run(
        &mut folder.stranger().await,
        "INSERT INTO postrider_migrations VALUES (9999, 'future', CURRENT_TIMESTAMP, true, x'', 0)",
    )
    .await;
    for new in [store.check_schema().await, store.migrate().await] {
        assert!(matches!(new, Err(Error::SchemaTooNew { found: 9999, .. })), "{new:?}");
    }
    for bad in ["sqlite::memory:", "sqlite://", "postgres://localhost/x"] {
        assert!(matches!(SqliteStore::connect(bad).await, Err(Error::Unsupported(_))), "{bad}");
    }
}

/// One INSERT by hand, in any time zone, is delivered; one that breaks a limit is refused with the name of the limit.
#[tokio::test]
async fn sqlite_delivers_what_the_shell_inserts() {
    let folder = Folder::new();
    let store = folder.store().await;
    subscribe(&store, "order.paid", "points", Via::Local).await;
    let before = store.now().await.expect("tells");
    let insert = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('any-unique-id', 'order.paid', '{\"orderId\": 123}')";
    shell(&folder.file(), insert).expect("inserts");
    assert_eq!(store.route(10).await.expect("routes").routed, 1);
    let lease = store.claim(&Claim::new("points", 10)).await.expect("claims");
    let envelope = &lease.deliveries[0].envelope;
    assert_eq!(envelope.payload, r#"{"orderId": 123}"#);
    let after = store.now().await.expect("tells");
    assert!(before <= envelope.occurred_at && envelope.occurred_at <= after);
    assert_eq!(envelope.initiator.service.as_deref(), Some("sql"));

    // Bytes that are not UTF-8 affect only their own event.
    shell(&folder.file(), "INSERT INTO postrider_event (event_id, topic, payload, event_key, trace_id, initiator) VALUES ('odd', 'order.paid', CAST(x'ff' AS TEXT), CAST(x'fe' AS TEXT), x'fd', x'fc')").expect("inserts");
    assert_eq!(store.route(10).await.expect("routes").routed, 1);
    let odd = store.claim_keyed(&Claim::new("points", 10), DeadHead::Hold).await.expect("claims");
    assert_eq!(odd.deliveries[0].envelope.payload, "\u{fffd}");

    let row = shell(
        &folder.file(),
        "SELECT status, retry_count, lock_owner, created_at FROM postrider_outbox WHERE event_id = 'any-unique-id'",
    )
    .expect("selects");
    assert!(row.starts_with("PROCESSING|0|unnamed|20") && row.trim_end().ends_with('Z'), "{row}");
    let row = shell(&folder.file(), "SELECT consumer, event_id, status FROM postrider_consume_log").expect("selects");
    assert!(row.contains("points|any-unique-id|PROCESSING"), "{row}");

    for (columns, values, constraint) in [
        ("event_id, topic, payload", "'', 't', ''", "event_id_has_1_to_64_characters"),
        ("event_id, topic, payload", "'x', 'two words', ''", "topic_is_1_to_128_of_letters_digits_dot_underscore_dash"),
        ("event_id, topic, payload", "'x', 't', printf('%.*c', 1048577, 'x')", "payload_has_1_mib_at_most"),
        (
            "event_id, topic, payload",
            "'x', 't', printf('%.*c', 524289, 'x') || replace(hex(zeroblob(131072)), '0', 'é')",
            "payload_has_1_mib_at_most",
        ),
        (
            "event_id, topic, payload, occurred_at",
            "'x', 't', '', '2026-01-01'",
            "occurred_at_is_milliseconds_since_1970_utc",
        ),
        ("event_id, topic, payload, deliver_at", "'x', 't', '', 1.5", "deliver_at_is_milliseconds_since_1970_utc"),
        ("event_id, topic, payload, max_attempts", "'x', 't', '', 0", "max_attempts_is_1_to_10000"),
        ("event_id, topic, payload, event_key", "'x', 't', '', ''", "event_key_has_1_to_256_characters"),
    ] {
        let refused = shell(&folder.file(), &format!("INSERT INTO postrider_event ({columns}) VALUES ({values})"));
        let text = refused.expect_err(constraint);
        assert!(text.contains(constraint), "{text}");
    }
    shell(&folder.file(), "INSERT INTO postrider_event (event_id, topic, payload) VALUES (printf('%.*c', 64, 'x'), 't', printf('%.*c', 1048576, 'x'))").expect("is within every limit");
}

/// A script of the migrations after a version completes a schema of that version.
#[tokio::test]
async fn sqlite_schema_of_an_older_version_is_completed_by_another_tool() {
    let folder = Folder::new();
    let store = SqliteStore::connect(&folder.url()).await.expect("connects");
    let (all, newer) = (migrations(0), migrations(6));
    let older = all.strip_suffix(&newer).expect("the newer ones are the end of all");
    shell(&folder.file(), older).expect("applies");
    assert!(matches!(store.check_schema().await, Err(Error::SchemaOutOfDate { found: 6, .. })));
    shell(&folder.file(), &newer).expect("applies");
    store.check_schema().await.expect("up to date");
    store.migrate().await.expect("nothing to do");
}

/// The `sqlite3` shell, in a time zone that is not UTC.
fn shell(file: &Path, sql: &str) -> Result<String, String> {
    let output = Command::new("sqlite3")
        .env("TZ", "Asia/Shanghai")
        .arg(file)
        .arg(sql)
        .output()
        .expect("the sqlite3 shell is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// B.5: the claim uses its index and never sorts, whatever waits, is leased, delayed, held or dead.
#[tokio::test]
async fn sqlite_claims_by_index_without_a_sort() {
    let folder = Folder::new();
    let store = folder.store().await;
    let mut conn = folder.stranger().await;
    run(
        &mut conn,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
         INSERT INTO postrider_delivery (event_seq, due_at, token, lock_until, attempts, shard, dead, held, lane, event_key)
         SELECT i, CASE i % 7 WHEN 0 THEN 9000000000000 ELSE i END, CASE i % 11 WHEN 0 THEN 1 END,
                CASE i % 11 WHEN 0 THEN 9000000000000 END, i % 3, i % 64, i % 13 = 0, i % 17 = 0,
                CASE i % 5 WHEN 0 THEN 'other' ELSE 'c' END, CASE i % 2 WHEN 0 THEN i % 5000 END
         FROM n;
         INSERT INTO postrider_event (event_id, topic, payload, waits_for)
         SELECT id, 't' || id % 100, '', CASE id % 50 WHEN 0 THEN '' WHEN 1 THEN 't' || id % 100 END
         FROM postrider_delivery;
         INSERT INTO postrider_subscription (topic, consumer) VALUES ('t51', 'c'), ('*', 'c');",
    )
    .await;
    for analyzed in [false, true] {
        if analyzed {
            run(&mut conn, "ANALYZE").await;
        }
        for (verb, sql, index) in [
            ("claim", include_str!("../../queries/sqlite/deliveries/claim.sql"), "postrider_delivery_due ("),
            (
                "claim_fetch",
                include_str!("../../queries/sqlite/deliveries/claim_fetch.sql"),
                "postrider_delivery_due (",
            ),
            (
                "claim_keyed",
                include_str!("../../queries/sqlite/deliveries/claim_keyed.sql"),
                "postrider_delivery_due_keyed (",
            ),
            ("park", include_str!("../../queries/sqlite/deliveries/park.sql"), "postrider_delivery_due_keyed ("),
            ("route_lock", include_str!("../../queries/sqlite/events/route_lock.sql"), "postrider_event_waits ("),
            ("next_due", include_str!("../../queries/sqlite/deliveries/next_due.sql"), "postrider_delivery_due ("),
        ] {
            let plan = plan(&mut conn, sql).await;
            assert!(plan.contains(&format!("INDEX {index}")), "{verb}: {plan}");
            assert!(!plan.contains("FOR ORDER BY"), "{verb}: {plan}");
            assert!(
                !plan.contains("SCAN postrider_delivery") && !plan.contains("SCAN postrider_event\n"),
                "{verb}: {plan}"
            );
        }
    }
    let claimed = store.claim(&Claim::new("c", 500)).await.expect("claims");
    assert!(claimed.deliveries.len() == 500 && claimed.deliveries.iter().all(|d| d.attempt <= 3));
}

/// The next events of a bulk operation's plan, and those without a result.
const PLANNED: &str = "SELECT event_seq, event_id FROM postrider_operation_item \
    INDEXED BY postrider_operation_item_outcome WHERE operation = ?1 AND outcome = ?2 ORDER BY event_seq DESC LIMIT ?3";
const OPEN: &str = "SELECT event_seq, event_id, step, watched FROM postrider_operation_item \
    INDEXED BY postrider_operation_item_outcome WHERE operation = ?1 AND outcome = ?2 AND event_seq > ?3 ORDER BY event_seq LIMIT ?4";

/// D.13 G.12: lists, the roll-up and bulk operations use an index and never sort.
#[tokio::test]
async fn sqlite_lists_by_index_without_a_sort() {
    let folder = Folder::new();
    let store = folder.store().await;
    let mut conn = folder.stranger().await;
    run(
        &mut conn,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
         INSERT INTO postrider_event (event_id, topic, payload, waits_for) SELECT i, 't', '', NULL FROM n;
         INSERT INTO postrider_status (event_seq, status, expires_at)
         SELECT seq, CASE seq % 10 WHEN 0 THEN 'FAILED' ELSE 'CONSUMED' END, CASE seq % 10 WHEN 0 THEN seq END FROM postrider_event;
         INSERT INTO postrider_lookup (hash, event_seq) SELECT seq % 10, seq FROM postrider_event;
         INSERT INTO postrider_mark (event_seq) SELECT seq FROM postrider_event;
         INSERT INTO postrider_operation_item (operation, event_seq, event_id, outcome)
         SELECT 1, seq, event_id, CASE WHEN seq < 100000 THEN 2 WHEN seq % 2 = 0 THEN 1 ELSE 0 END FROM postrider_event;",
    )
    .await;
    for analyzed in [false, true] {
        if analyzed {
            run(&mut conn, "ANALYZE").await;
        }
        for (verb, sql, index) in [
            (
                "list_lookup",
                include_str!("../../queries/sqlite/lists/list_lookup.sql"),
                "postrider_lookup USING PRIMARY KEY",
            ),
            (
                "list_status",
                include_str!("../../queries/sqlite/lists/list_status.sql"),
                "INDEX postrider_status_status",
            ),
            ("list_events", include_str!("../../queries/sqlite/lists/list_events.sql"), "INTEGER PRIMARY KEY"),
            (
                "list_unfolded",
                include_str!("../../queries/sqlite/lists/list_unfolded.sql"),
                "SEARCH e USING INTEGER PRIMARY KEY",
            ),
            (
                "list_unfolded_after",
                include_str!("../../queries/sqlite/lists/list_unfolded_after.sql"),
                "SEARCH s USING INTEGER PRIMARY KEY",
            ),
            (
                "list_among_lookup",
                include_str!("../../queries/sqlite/lists/list_among_lookup.sql"),
                "SEARCH l USING PRIMARY KEY (hash=? AND event_seq=?)",
            ),
            (
                "list_among_status",
                include_str!("../../queries/sqlite/lists/list_among_status.sql"),
                "INDEX postrider_status_status (status=? AND rowid=?)",
            ),
            (
                "list_delivering",
                include_str!("../../queries/sqlite/lists/list_delivering.sql"),
                "SEARCH d USING INDEX sqlite_autoindex_postrider_delivery_1 (event_seq=?)",
            ),
            (
                "list_match",
                include_str!("../../queries/sqlite/lists/list_match.sql"),
                "SEARCH e USING INTEGER PRIMARY KEY",
            ),
            (
                "search_ids",
                include_str!("../../queries/sqlite/lists/search_ids.sql"),
                "INDEX sqlite_autoindex_postrider_event_1 (event_id>? AND event_id<?)",
            ),
            (
                "list_ids",
                include_str!("../../queries/sqlite/lists/list_ids.sql"),
                "INDEX sqlite_autoindex_postrider_event_1 (event_id=?)",
            ),
            ("planned", PLANNED, "INDEX postrider_operation_item_outcome (operation=? AND outcome=?)"),
            ("open", OPEN, "INDEX postrider_operation_item_outcome (operation=? AND outcome=? AND event_seq>?)"),
            ("records", include_str!("../../queries/sqlite/events/records.sql"), "SEARCH e USING INTEGER PRIMARY KEY"),
            (
                "fold_expiring",
                include_str!("../../queries/sqlite/upkeep/fold_expiring.sql"),
                "INDEX postrider_status_expires",
            ),
            (
                "fold_new",
                include_str!("../../queries/sqlite/upkeep/fold_new.sql"),
                "SEARCH e USING INTEGER PRIMARY KEY",
            ),
        ] {
            let plan = plan(&mut conn, sql).await;
            assert!(plan.contains(index), "{verb}: {plan}");
            assert!(!plan.contains("FOR ORDER BY"), "{verb}: {plan}");
            for table in ["postrider_event", "postrider_status", "postrider_lookup", "e\n", "s\n"] {
                assert!(!plan.contains(&format!("SCAN {table}")), "{verb}: {plan}");
            }
        }
    }
    let filter = Filter { status: Some(EventStatus::Failed), ..Filter::default() };
    let page = store.list(&List::new(filter, 10)).await.expect("a page");
    assert!(page.next.is_some(), "{page:?}");
}

async fn plan(conn: &mut SqliteConnection, sql: &str) -> String {
    let explain = format!("EXPLAIN QUERY PLAN {sql}");
    let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(conn).await.expect("plans");
    rows.iter().map(|row| row.get::<String, _>("detail") + "\n").collect()
}

/// F44: the store is unreachable for a while. The loop waits, retries, and continues; no slot fires more than once.
#[tokio::test]
async fn sqlite_jobs_go_on_after_an_outage() {
    let folder = Folder::new();
    let store = folder.store().await;
    let (tell, mut fired) = tokio::sync::mpsc::unbounded_channel();
    let schedule = Schedule::parse("* * * * * ?", "UTC").expect("a schedule");
    let jobs = Jobs::new(Arc::new(store)).job("job", schedule, move |context| {
        let tell = tell.clone();
        async move {
            tell.send(context.slot.expect("a slot"))?;
            Ok("told".into())
        }
    });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { jobs.run(async { stopped.await.unwrap_or_default() }).await });
    let before = fired.recv().await.expect("it fires");
    let mut stranger = folder.stranger().await;
    run(&mut stranger, "PRAGMA busy_timeout = 5000; ALTER TABLE postrider_job RENAME TO gone").await;
    let mut slots = vec![before];
    // Runs that had begun; then only the outage, for longer than a slot.
    while let Ok(slot) = tokio::time::timeout(Duration::from_millis(2500), fired.recv()).await {
        slots.push(slot.expect("it fires"));
    }
    run(&mut stranger, "ALTER TABLE gone RENAME TO postrider_job").await;
    for _ in 0..2 {
        slots.push(fired.recv().await.expect("it fires again"));
    }
    stop.send(()).expect("it runs");
    running.await.expect("ends").expect("in peace");
    assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "{slots:?}");
}

/// F55, F27: work whose transaction was rolled back without its notice has no effect, and so no result either.
#[tokio::test]
async fn sqlite_keeps_no_result_of_a_transaction_that_was_rolled_back() {
    let folder = Folder::new();
    let store = folder.store().await;
    run(&mut folder.stranger().await, "CREATE TABLE effect (id INTEGER PRIMARY KEY); INSERT INTO effect VALUES (1)")
        .await;
    let keys = Idempotency::new(store.clone());
    let careless = keys.run("key", &(), |tx| {
        Box::pin(async move {
            sqlx::query("INSERT INTO effect VALUES (2)").execute(&mut *tx).await?;
            let swallowed = sqlx::query("INSERT OR ROLLBACK INTO effect VALUES (1)").execute(tx).await;
            assert!(swallowed.is_err(), "it is there");
            Ok::<_, sqlx::Error>("done".to_owned())
        })
    });
    let careless = careless.await;
    assert!(matches!(careless, Err(IdempotencyError::LeaseLost)), "{careless:?}");
    let effects = "SELECT count(*) FROM effect";
    let count: i64 = sqlx::query_scalar(effects).fetch_one(store.pool()).await.expect("counts");
    assert_eq!(count, 1, "there is no effect");
    let again = keys.run("key", &(), |_| Box::pin(async { Ok::<_, sqlx::Error>("at once".to_owned()) })).await;
    assert_eq!(again.expect("it had failed").into_inner(), "at once");
}

/// A handler of a web framework must be able to hold these futures.
#[allow(dead_code)]
fn futures_can_be_sent(keys: Idempotency<SqliteStore>, jobs: Jobs, conn: &mut SqliteConnection) {
    fn is_send<T: Send>(_: T) {}
    struct NotSync(std::cell::Cell<u8>);
    impl std::fmt::Display for NotSync {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{}", self.0.get())
        }
    }
    is_send(keys.run("key", &1, |_| Box::pin(async { Err::<u8, _>(NotSync(1.into())) })));
    is_send(keys.run_in(conn, "key", &1, |_| Box::pin(async { Err::<u8, _>(NotSync(1.into())) })));
    is_send(keys.call("key", &1, |_| async { Err::<u8, _>(NotSync(1.into())) }));
    is_send(jobs.run(std::future::pending()));
    is_send(jobs.run_now("job"));
}

/// The program's pool serves its transactions.
#[tokio::test]
async fn sqlite_stores_use_the_programs_own_pool() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.file().parent().expect("a folder")).expect("makes it");
    let options = SqliteConnectOptions::new().filename(folder.file()).create_if_missing(true);
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect_with(options).await.expect("connects");
    sqlx::query(MARKS).execute(&pool).await.expect("creates");
    let store = SqliteStore::from_pool(pool).await.expect("takes the pool");
    crate::pool::transactions_of_the_programs_pool(store.clone(), |conn| {
        Box::pin(async move { sqlx::query(MARK).execute(conn).await.map(drop) })
    })
    .await;
    sqlx::query(MARK).execute(store.pool()).await.expect("it is the program's pool");
}

/// A.7: an effect is found by its business key.
#[tokio::test]
async fn sqlite_finds_business_keys_by_index() {
    let folder = Folder::new();
    let store = folder.store().await;
    let mut conn = store.pool().acquire().await.expect("a connection");
    let by_key = "SELECT consumer, event_id FROM postrider_inbox WHERE idempotency_key = ?1";
    let plan = plan(&mut conn, by_key).await;
    assert!(plan.contains("SEARCH postrider_inbox USING INDEX postrider_inbox_key (idempotency_key=?)"), "{plan}");
}

/// G.11: a story reads its rows by index, and so does a look at the keys behind dead deliveries.
#[tokio::test]
async fn sqlite_tells_stories_by_index() {
    let folder = Folder::new();
    let store = folder.store().await;
    let mut conn = store.pool().acquire().await.expect("a connection");
    let waiting = "SELECT 1 AS one FROM postrider_delivery d INDEXED BY postrider_delivery_key
        WHERE d.lane = ?1 AND d.event_key = ?2 AND d.event_seq > ?3 AND NOT d.dead LIMIT ?4";
    let dead = "SELECT event_key, event_seq FROM postrider_delivery INDEXED BY postrider_delivery_dead
        WHERE lane = ?1 AND dead AND event_key IS NOT NULL LIMIT ?2";
    for (sql, search) in [
        (
            include_str!("../../queries/sqlite/stories/received.sql"),
            "SEARCH r USING INDEX sqlite_autoindex_postrider_inbox_1 (consumer=? AND event_id=?)",
        ),
        (
            include_str!("../../queries/sqlite/stories/keys_named.sql"),
            "SEARCH k USING INDEX postrider_idempotency_key (key=?)",
        ),
        (waiting, "SEARCH d USING INDEX postrider_delivery_key (lane=? AND event_key=? AND event_seq>?)"),
        (dead, "INDEX postrider_delivery_dead (lane=?)"),
    ] {
        let plan = plan(&mut conn, sql).await;
        assert!(plan.contains(search), "{plan}");
    }
}
