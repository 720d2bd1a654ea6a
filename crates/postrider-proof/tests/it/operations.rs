//! A bulk redrive whose workers are killed with SIGKILL repeatedly. Each event is redriven once, no faster than the
//! requested rate.

use std::time::{Duration, Instant};

use postrider::Rollup;
use postrider::prelude::*;
use postrider::status::EventStatus;
use postrider::store::postgres::PostgresStore;
use postrider::store::{Filter, NewOperation, OperationState};
use sqlx::{Connection, PgConnection};

use crate::database::{Database, PAST_ANY_LEASE, over};
use crate::worker::Worker;

const EVENTS: u64 = 50_000;
const PER_SECOND: u32 = 2_500;
/// How often the worker is killed.
const KILLS: u64 = 8;

over! { postgres:
    /// D.8
    a_bulk_redrive_survives_kills_and_redrives_each_event_once,
}

/// Dead events.
const DEAD: &str = "
    INSERT INTO postrider_event (event_id, topic, payload, waits_for)
    SELECT 'dead-' || n, 'work.done', '{}', NULL FROM generate_series(1, 50000) n;
    INSERT INTO postrider_delivery (event_seq, lane, shard, place, due_at, attempts)
    SELECT seq, 'count', seq % 64, 3, now(), 10 FROM postrider_event;
    INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, error)
    SELECT seq, 'count', 1, false, 'boom' FROM postrider_event;
    ANALYZE";

async fn a_bulk_redrive_survives_kills_and_redrives_each_event_once(database: &Database) {
    let mut auditor = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(DEAD).execute(&mut auditor).await.unwrap();
    let store = PostgresStore::connect(database.url()).await.unwrap();
    Rollup::new(store.clone()).drain().await.unwrap();
    let filter = Filter { status: Some(EventStatus::Failed), ..Filter::default() };
    let request = NewOperation { rate_per_second: Some(PER_SECOND), ..NewOperation::redrive("bulk", filter) };
    store.create_operation(&request).await.unwrap();

    let mut working = Duration::ZERO;
    for kill in 1..=KILLS {
        let worker = Worker::start(database.url(), "operate");
        let began = Instant::now();
        comes_to(&store, |done| done >= kill * EVENTS / (KILLS + 1)).await;
        worker.kill().await;
        working += began.elapsed();
        // Wherever the kill hit: the count equals the redriven events, and none was redriven twice.
        let (redriven, twice) = redriven(&mut auditor).await;
        let counted = store.operation("bulk").await.unwrap().unwrap().done;
        assert_eq!((redriven, twice), (counted, 0), "after kill {kill}");
        database.age(PAST_ANY_LEASE).await;
    }
    let worker = Worker::start(database.url(), "operate");
    let began = Instant::now();
    comes_to(&store, |done| done >= EVENTS).await;
    working += began.elapsed();
    while store.operation("bulk").await.unwrap().unwrap().state != OperationState::Done {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    worker.kill().await;
    assert_eq!(redriven(&mut auditor).await, (EVENTS, 0));
    let due = "SELECT count(*) FROM postrider_delivery WHERE place = 0 AND attempts = 0";
    assert_eq!(database.number(due).await, EVENTS.cast_signed());
    // Each worker starts with one batch before it waits for the rate.
    let least = Duration::from_secs_f64((EVENTS - (KILLS + 1) * 400) as f64 / f64::from(PER_SECOND));
    assert!(working >= least, "{working:?} is faster than {PER_SECOND} a second");
    eprintln!("{EVENTS} events in {working:?} of work, {PER_SECOND} a second asked for");
}

async fn comes_to(store: &PostgresStore, far: impl Fn(u64) -> bool) {
    let reached = async {
        while !far(store.operation("bulk").await.unwrap().unwrap().done) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), reached).await.expect("it comes on");
}

/// The number of redriven events, and of those redriven more than once.
async fn redriven(auditor: &mut PgConnection) -> (u64, u64) {
    let query =
        "SELECT count(*) FILTER (WHERE redrives > 0), count(*) FILTER (WHERE redrives > 1) FROM postrider_status";
    let (once, twice): (i64, i64) = sqlx::query_as(query).fetch_one(auditor).await.unwrap();
    (once.unsigned_abs(), twice.unsigned_abs())
}
