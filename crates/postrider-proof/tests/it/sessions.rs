//! The database sessions of a relay on PostgreSQL, and its alarms about sessions of others.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider::alert::{Alarm, Alert};
use postrider::prelude::*;
use postrider::store::postgres::PostgresStore;
use postrider::{
    Consumer, Draft, Event, Failure, Inbox, LaneOptions, Outbox, OutsideConsumer, Received, Relay, RelayOptions,
};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::database::{Database, TIMEOUT};

#[derive(Serialize, Deserialize)]
struct Done {
    counter: String,
}

impl Event for Done {
    const TOPIC: &'static str = "work.done";
}

async fn enqueue(store: &PostgresStore, events: u32) {
    let mut tx = store.begin().await.unwrap();
    let drafts: Vec<_> = (0..events).map(|n| Draft::of(&Done { counter: format!("e{n:05}") }).unwrap()).collect();
    for n in 0..events {
        let make = sqlx::query("INSERT INTO counter (name, n) VALUES ($1, 0)").bind(format!("e{n:05}"));
        make.execute(&mut *tx).await.unwrap();
    }
    Outbox::new(store.clone()).enqueue_many(&mut tx, drafts).await.unwrap();
    store.commit(tx).await.unwrap();
}

/// An outside call that returns when the test allows it.
struct Calls {
    begun: mpsc::UnboundedSender<()>,
    answer: Arc<Semaphore>,
}

impl OutsideConsumer for Calls {
    const NAME: &'static str = "count";
    type Event = Done;

    async fn handle(&self, _: Received<Done>) -> Result<(), Failure> {
        self.begun.send(())?;
        self.answer.acquire().await?.forget();
        Ok(())
    }
}

/// F32
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_transaction_is_open_on_postgres_during_a_call() {
    let database = Database::postgres().await;
    let store = PostgresStore::connect(database.url()).await.unwrap();
    enqueue(&store, 20).await;
    let (begun, mut calls) = mpsc::unbounded_channel();
    let answer = Arc::new(Semaphore::new(0));
    let inbox = Inbox::new(store.clone()).outside(Calls { begun, answer: Arc::clone(&answer) });
    let relay = tokio::spawn(Relay::new(store.clone(), inbox).drain());
    for _ in 0..4 {
        timeout(TIMEOUT, calls.recv()).await.expect("a call").unwrap();
    }
    // A transaction around a call began before the call. The watcher's own are short, and may be seen between two statements.
    let begun = database.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").await;
    let open = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%' \
         AND extract(epoch FROM xact_start) * 1000 < {begun}"
    );
    timeout(TIMEOUT, async { while database.number(&open).await > 0 {} }).await.expect("no transaction is held");
    answer.add_permits(1_000);
    timeout(TIMEOUT, relay).await.expect("the relay ends").unwrap().unwrap();
    assert_eq!(database.number("SELECT count(*) FROM postrider_delivery").await, 0);
    database.finish().await;
}

/// Has an effect and enqueues an event.
struct Adds<const N: usize>(Outbox<PostgresStore>);

#[derive(Serialize, Deserialize)]
struct Added {}

impl Event for Added {
    const TOPIC: &'static str = "work.added";
}

macro_rules! adds {
    ($($n:literal $name:literal)*) => {
        $(impl Consumer<PostgresStore> for Adds<$n> {
            const NAME: &'static str = $name;
            type Event = Done;

            async fn handle(&self, tx: &mut PgConnection, done: Received<Done>) -> Result<(), Failure> {
                let add = sqlx::query("UPDATE counter SET n = n + 1 WHERE name = $1").bind(&done.counter);
                add.execute(&mut *tx).await?;
                self.0.enqueue(tx, &Added {}).await?;
                Ok(())
            }
        })*
    };
}
adds!(0 "count" 1 "second" 2 "third");

/// F33: every handler waits for a connection while the relay needs others. Two relays share the smallest pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_progress_on_postgres_with_the_smallest_pool() {
    let database = Database::postgres().await;
    assert!(PostgresStore::connect_with(database.url(), 1).await.is_err(), "a pool that is too small is refused");
    let store = PostgresStore::connect_with(database.url(), 2).await.unwrap();
    database
        .execute(
            "INSERT INTO postrider_subscription (topic, consumer, via)
             VALUES ('work.done', 'second', 'local'), ('work.done', 'third', 'local')",
        )
        .await;
    enqueue(&store, 100).await;
    let relays = [(); 2].map(|()| {
        let outbox = Outbox::new(store.clone());
        let greedy = LaneOptions { concurrency: 16, ..LaneOptions::default() };
        let inbox = Inbox::new(store.clone())
            .default_options(greedy)
            .consumer(Adds::<0>(outbox.clone()))
            .consumer(Adds::<1>(outbox.clone()))
            .consumer(Adds::<2>(outbox));
        tokio::spawn(Relay::new(store.clone(), inbox).drain())
    });
    for relay in relays {
        timeout(TIMEOUT, relay).await.expect("the relay ends").unwrap().unwrap();
    }
    assert_eq!(database.number("SELECT count(*) FROM counter WHERE n = 3").await, 100);
    assert_eq!(database.number("SELECT count(*) FROM postrider_event WHERE topic = 'work.added'").await, 300);
    assert_eq!(database.number("SELECT count(*) FROM postrider_delivery").await, 0);
    database.finish().await;
}

struct SendsAlarms(mpsc::UnboundedSender<Alarm>);

#[async_trait]
impl Alert for SendsAlarms {
    async fn alert(&self, alarm: &Alarm) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.0.send(alarm.clone())?)
    }
}

/// Runs a relay until it raises an alarm about a holder with this name prefix.
async fn an_alarm_names(store: &PostgresStore, wanted: &str) {
    let (sender, mut alarms) = mpsc::unbounded_channel();
    let options = RelayOptions { snapshot_age: Duration::ZERO, ..RelayOptions::default() };
    let relay = Relay::new(store.clone(), Inbox::new(store.clone())).options(options).also_alert(SendsAlarms(sender));
    let named = async {
        loop {
            match alarms.recv().await {
                Some(Alarm::SnapshotHeld { holder, .. }) if holder.starts_with(wanted) => return,
                other => assert!(other.is_some(), "no alarm named {wanted}"),
            }
        }
    };
    timeout(TIMEOUT, relay.run(named)).await.expect("an alarm").unwrap();
}

/// F31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_of_a_snapshot_on_postgres_is_named() {
    let database = Database::postgres().await;
    let store = PostgresStore::connect(database.url()).await.unwrap();
    let mut reader = store.begin().await.unwrap();
    let set = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    sqlx::raw_sql(set).execute(&mut *reader).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *reader).await.unwrap();

    let holder = format!("session {pid} ");
    let holders = store.snapshot_holders(Duration::ZERO).await.unwrap();
    assert!(holders.iter().any(|held| held.holder.starts_with(&holder)), "{holders:?}");
    let holders = store.snapshot_holders(Duration::from_secs(3600)).await.unwrap();
    assert!(holders.is_empty(), "not for that long: {holders:?}");
    an_alarm_names(&store, &holder).await;

    drop(reader);
    let gone = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND backend_xmin IS NOT NULL");
    database.until(&gone, 0).await;
    let holders = store.snapshot_holders(Duration::ZERO).await.unwrap();
    assert!(!holders.iter().any(|held| held.holder.starts_with(&holder)), "{holders:?}");
    database.finish().await;
}

/// F43
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_transaction_left_behind_on_postgres_is_named() {
    let database = Database::postgres().await;
    let allowed = database.number("SELECT current_setting('max_prepared_transactions')::bigint").await;
    assert!(allowed > 0, "start the servers with scripts/services: this one has no prepared transactions");
    let store = PostgresStore::connect(database.url()).await.unwrap();
    let gid = format!("left-behind-{}", uuid::Uuid::new_v4());
    database
        .execute(&format!("BEGIN; INSERT INTO counter (name, n) VALUES ('x', 0); PREPARE TRANSACTION '{gid}'"))
        .await;
    an_alarm_names(&store, &format!("prepared transaction {gid} ")).await;
    database.execute(&format!("ROLLBACK PREPARED '{gid}'")).await;
    database.finish().await;
}
