//! The engine: relay, inbox and consumers in one process, compared with hand-written loops.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use postrider::prelude::*;
use postrider::store::History;
use postrider::store::postgres::PostgresStore;
use postrider::transport::Transport;
use postrider::{
    BatchConsumer, Consumer, Draft, Event, Failure, Inbox, LaneOptions, Outbox, OutsideConsumer, Received, Relay,
};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use tokio::sync::{Notify, mpsc};

use crate::drain::{BATCH, WORKERS};
use crate::report::{Latencies, Round};
use crate::setup::{LANE, Scratch, TOPIC, fill, payload};
use crate::turns::{Turn, turns_of};
use crate::{Outcome, Size, bare_postgres};

/// Concurrent transactions on both sides.
pub(crate) const TRANSACTIONS: usize = 4;
/// The number of accounts: enough that transactions rarely wait for the same row.
pub(crate) const ACCOUNTS: i64 = 1_000;

/// The payload of the benchmark's events.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paid {
    order_id: i64,
    amount_cents: i64,
    note: String,
}

impl Event for Paid {
    const TOPIC: &'static str = TOPIC;
}

/// Turns of each side per round, each with its own relay.
pub(crate) const RELAYS: usize = 4;

/// Signals when a number of events is handled, and records when the first tenth was.
#[derive(Clone)]
pub(crate) struct Goal {
    events: usize,
    handled: Arc<AtomicUsize>,
    /// The relay has a slow start of about 0.1 s, independent of the backlog, so the time is measured from here.
    warm: Arc<OnceLock<Warm>>,
    reached: Arc<Notify>,
}

struct Warm {
    at: Instant,
    handled: usize,
}

impl Goal {
    pub(crate) fn new(events: usize) -> Self {
        Self { events, handled: Arc::default(), warm: Arc::default(), reached: Arc::default() }
    }

    pub(crate) fn count(&self, events: usize) {
        let handled = self.handled.fetch_add(events, Ordering::AcqRel) + events;
        if handled >= self.events / 10 {
            self.warm.get_or_init(|| Warm { at: Instant::now(), handled });
        }
        if handled == self.events {
            self.reached.notify_one();
        }
    }
}

struct NoOp(Goal);

impl OutsideConsumer for NoOp {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
        assert!(paid.amount_cents > 0);
        self.0.count(1);
        Ok(())
    }
}

const BALANCES: &str =
    "CREATE TABLE balance (account bigint PRIMARY KEY, cents bigint NOT NULL) WITH (fillfactor = 50);
    INSERT INTO balance SELECT n, 0 FROM generate_series(0, 999) n";

/// The account of an event: spread evenly, the same on both sides.
fn account(delivery: usize) -> i64 {
    delivery as i64 % ACCOUNTS
}

struct Pays(Goal, AtomicUsize);

impl Consumer<PostgresStore> for Pays {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, tx: &mut PgConnection, paid: Received<Paid>) -> Result<(), Failure> {
        sqlx::query("UPDATE balance SET cents = cents + $2 WHERE account = $1")
            .bind(account(self.1.fetch_add(1, Ordering::Relaxed)))
            .bind(paid.amount_cents)
            .execute(tx)
            .await?;
        self.0.count(1);
        Ok(())
    }
}

struct PaysInBatches(Goal, AtomicUsize);

impl BatchConsumer<PostgresStore> for PaysInBatches {
    const NAME: &'static str = LANE;
    const SIZE: usize = 100;
    type Event = Paid;

    async fn handle(&self, tx: &mut PgConnection, events: Vec<Received<Paid>>) -> Result<(), Failure> {
        let (accounts, cents): (Vec<_>, Vec<_>) =
            events.iter().map(|paid| (account(self.1.fetch_add(1, Ordering::Relaxed)), paid.amount_cents)).unzip();
        sqlx::query(
            "UPDATE balance b SET cents = b.cents + p.cents
             FROM (SELECT account, sum(cents)::bigint AS cents FROM unnest($1::bigint[], $2::bigint[]) AS p (account, cents)
                   GROUP BY account ORDER BY account) p
             WHERE b.account = p.account",
        )
        .bind(accounts)
        .bind(cents)
        .execute(tx)
        .await?;
        self.0.count(events.len());
        Ok(())
    }
}

fn options(concurrency: usize, history: History) -> LaneOptions {
    LaneOptions { batch: BATCH, concurrency, history, ..LaneOptions::default() }
}

/// Runs a relay until the goal is reached and everything is settled. Measures the time after the first tenth.
pub(crate) async fn relay(store: &PostgresStore, transport: impl Transport, goal: &Goal) -> Outcome<Turn> {
    let reached = Arc::clone(&goal.reached);
    Relay::new(store.clone(), transport).run(async move { reached.notified().await }).await?;
    let warm = goal.warm.get().ok_or("nothing was handled")?;
    let turn = Turn { events: goal.events - warm.handled, took: warm.at.elapsed() };
    let left = postrider::store::Figures::counts(store).await?;
    assert!(left.is_empty(), "every delivery is settled: {left:?}");
    Ok(turn)
}

pub(crate) async fn postgres_no_op(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    no_op(scratch, size, "no_op", History::Omit).await
}

pub(crate) async fn postgres_no_op_with_history(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    no_op(scratch, size, "no_op_history", History::Keep).await
}

async fn no_op(scratch: &Scratch, size: Size, name: &str, history: History) -> Outcome<Vec<Round>> {
    let store = scratch.postgres_store(name).await?;
    let bare_name = format!("{name}_bare");
    let bare = bare_postgres::Bare::new(&scratch.postgres(&bare_name).await?).await?;
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        let ours = async |events| {
            scratch.vacuum(name).await?;
            fill(&store, events, 0).await?;
            let goal = Goal::new(events);
            let inbox = Inbox::new(store.clone()).outside_with(NoOp(goal.clone()), options(WORKERS, history));
            relay(&store, inbox, &goal).await
        };
        let bare = async |events| {
            scratch.vacuum(&bare_name).await?;
            bare.fill(events).await?;
            bare.drain(WORKERS, events).await
        };
        rounds.push(turns_of(size.pending, RELAYS, ours, bare).await?);
    }
    Ok(rounds)
}

/// One transaction per event with inbox row, balance and end of the delivery, by hand and by the engine.
pub(crate) async fn postgres_exactly_once(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let store = with_balances(scratch, "once").await?;
    let bare = bare_postgres::Bare::new(&scratch.postgres("once_bare").await?).await?;
    bare.run(BALANCES).await?;
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        let bare = async |events| {
            bare.fill(events).await?;
            bare.pay(TRANSACTIONS).await
        };
        let ours = async |events| pay(&store, events).await;
        rounds.push(turns_of(size.transactions / RELAYS, RELAYS, ours, bare).await?);
    }
    Ok(rounds)
}

/// A hundred events per transaction, compared with one.
pub(crate) async fn postgres_batches(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let store = with_balances(scratch, "batches").await?;
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        let in_batches = async |events| {
            fill(&store, events, 0).await?;
            let goal = Goal::new(events);
            let batches = PaysInBatches(goal.clone(), AtomicUsize::default());
            let inbox = Inbox::new(store.clone()).batch_with(batches, options(TRANSACTIONS, History::Keep));
            relay(&store, inbox, &goal).await
        };
        let single = async |events| pay(&store, events).await;
        rounds.push(turns_of(size.transactions / RELAYS, RELAYS, in_batches, single).await?);
    }
    Ok(rounds)
}

async fn with_balances(scratch: &Scratch, name: &str) -> Outcome<PostgresStore> {
    let store = scratch.postgres_store(name).await?;
    let mut tx = store.begin().await?;
    sqlx::raw_sql(BALANCES).execute(&mut *tx).await?;
    store.commit(tx).await?;
    Ok(store)
}

async fn pay(store: &PostgresStore, events: usize) -> Outcome<Turn> {
    fill(store, events, 0).await?;
    let goal = Goal::new(events);
    let pays = Pays(goal.clone(), AtomicUsize::default());
    let inbox = Inbox::new(store.clone()).consumer_with(pays, options(TRANSACTIONS, History::Keep));
    relay(store, inbox, &goal).await
}

struct SendsTime(mpsc::UnboundedSender<Instant>);

impl OutsideConsumer for SendsTime {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, _: Received<Paid>) -> Result<(), Failure> {
        Ok(self.0.send(Instant::now())?)
    }
}

/// The time from the commit of an `enqueue` to its handler on an idle system. `open` is how long the transaction stays open
/// after the call.
pub(crate) async fn latency<S: Enlist>(store: S, samples: usize, open: Duration) -> Outcome<Latencies> {
    let outbox = Outbox::new(store.clone()).service("bench");
    let payload = payload();
    handled_after(&store, samples, async |_| {
        // Idle between samples.
        tokio::time::sleep(Duration::from_millis(15)).await;
        let mut tx = store.begin().await?;
        outbox.enqueue(&mut tx, Draft::json(TOPIC, &payload)?).await?;
        tokio::time::sleep(open).await;
        store.commit(tx).await?;
        Ok(Instant::now())
    })
    .await
}

/// The time from a plain `INSERT` of the SQL contract to its handler on an idle system. It wakes no relay: an idle one finds it
/// when it looks. Each insert comes from a session that is not the store's.
pub(crate) async fn insert_latency(scratch: &Scratch, store: &str, samples: usize) -> Outcome<Latencies> {
    const INSERT: &str = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ";
    let values = |n: usize| format!("{INSERT} ('plain-{n}', '{TOPIC}', '{}')", payload());
    macro_rules! measured {
        ($store:expr, $pool:expr) => {{
            let (store, pool) = ($store, $pool);
            handled_after(&store, samples, async |sample| {
                // Longer than the longest pause of an idle relay, and not in step with its looks.
                tokio::time::sleep(Duration::from_millis(250 + 7 * (sample as u64 % 11))).await;
                sqlx::raw_sql(sqlx::AssertSqlSafe(values(sample))).execute(&pool).await?;
                Ok(Instant::now())
            })
            .await
        }};
    }
    match store {
        "postgres" => measured!(
            scratch.postgres_store("inserted").await?,
            sqlx::PgPool::connect(&scratch.url("inserted")?).await?
        ),
        "mysql" => measured!(
            scratch.mysql_store("inserted").await?,
            sqlx::MySqlPool::connect(&scratch.mysql_url("inserted")?).await?
        ),
        _ => measured!(
            scratch.sqlite_store("inserted").await?,
            sqlx::SqlitePool::connect(&scratch.sqlite("inserted")).await?
        ),
    }
}

/// Runs a relay, publishes one event after the other, and measures the time from each commit, which `publish` returns, to the
/// handler.
async fn handled_after<S: Enlist>(
    store: &S,
    samples: usize,
    publish: impl AsyncFn(usize) -> Outcome<Instant>,
) -> Outcome<Latencies> {
    let (sender, mut received) = mpsc::unbounded_channel();
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let running = tokio::spawn(
        Relay::new(store.clone(), Inbox::new(store.clone()).outside(SendsTime(sender)))
            .run(async move { stopped.notified().await }),
    );
    let mut waits = Vec::with_capacity(samples);
    // The first samples use cold connections and are not counted.
    for sample in 0..samples + 10 {
        let committed = publish(sample).await?;
        let handled = received.recv().await.ok_or("the relay has ended")?;
        if sample >= 10 {
            waits.push(handled.saturating_duration_since(committed));
        }
    }
    stop.notify_one();
    running.await??;
    Ok(Latencies::of(waits))
}

/// The peak memory of a separate process that drains: this program with `--drain`.
pub(crate) async fn resident_memory(scratch: &Scratch, events: usize) -> Outcome<f64> {
    let store = scratch.postgres_store("memory").await?;
    fill(&store, events, 0).await?;
    let child = tokio::process::Command::new(std::env::current_exe()?)
        .args(["--drain", &scratch.url("memory")?, "--events", &events.to_string()])
        .output()
        .await?;
    let text = String::from_utf8(child.stdout)?;
    let kib: f64 = text.trim().parse().map_err(|_| format!("{text}{}", String::from_utf8_lossy(&child.stderr)))?;
    Ok(kib / 1024.0)
}

/// The child process of [`resident_memory`]: drains, and prints its peak memory in KiB.
pub(crate) async fn drain_and_report(url: &str, events: usize) -> Outcome<()> {
    let store = PostgresStore::connect(url).await?;
    let goal = Goal::new(events);
    let inbox = Inbox::new(store.clone()).outside_with(NoOp(goal.clone()), options(WORKERS, History::Keep));
    relay(&store, inbox, &goal).await?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    println!("{}", peak.trim().trim_end_matches(" kB"));
    Ok(())
}
