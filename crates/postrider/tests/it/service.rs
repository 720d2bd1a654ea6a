//! All loops of a store, run together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::jobs::{Jobs, Schedule};
use postrider::prelude::*;
use postrider::status::EventStatus;
use postrider::store::memory::{Conn, MemoryStore};
use postrider::store::{Filter, LIVE, List, NewOperation, OperationState};
use postrider::{Consumer, Draft, Event, Failure, Inbox, Outbox, Received, Retention, Service, Subscription, Via};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Serialize, Deserialize)]
struct Paid {
    order: u32,
}

impl Event for Paid {
    const TOPIC: &'static str = "order.paid";
    fn event_id(&self) -> Option<String> {
        Some(format!("order:{}:paid", self.order))
    }
}

struct Points;

impl Consumer<MemoryStore> for Points {
    const NAME: &'static str = "points";
    type Event = Paid;

    async fn handle(&self, _: &mut Conn, _: Received<Paid>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Waits until the lists show the event as CONSUMED, which is the work of the roll-up.
async fn until_listed_as_consumed(store: &MemoryStore) {
    let consumed = List::new(Filter { status: Some(EventStatus::Consumed), ..Filter::default() }, 10);
    while store.list(&consumed).await.expect("lists").events.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// G.10, G.3: it runs all loops of a store, also those that this test cannot wait for.
#[tokio::test]
async fn a_service_delivers_keeps_statuses_and_runs_jobs_and_operations() {
    let store = MemoryStore::new();
    store.set_subscription(&Subscription::new(Paid::TOPIC, Points::NAME, Via::Local)).await.expect("subscribes");
    let mut tx = store.begin().await.expect("begins");
    Outbox::new(store.clone()).enqueue(&mut tx, Draft::of(&Paid { order: 7 }).expect("JSON")).await.expect("enqueues");
    store.commit(tx).await.expect("commits");
    store.create_operation(&NewOperation::redrive("op", Filter::default())).await.expect("is asked for");

    let ran = Arc::new(Notify::new());
    let noted = Arc::clone(&ran);
    let every_second = Schedule::parse("* * * * * ?", "UTC").expect("a schedule");
    let jobs = Jobs::new(store.clone()).job("reaper", every_second, move |_| {
        noted.notify_one();
        async { Ok("nothing to do".into()) }
    });
    let stop = CancellationToken::new();
    let service = Service::new(store.clone()).inbox(Inbox::new(store.clone()).consumer(Points)).jobs(jobs);
    let service = service.retention(Retention::default());
    let running = tokio::spawn(service.run(stop.clone().cancelled_owned()));
    let everything = async {
        until_listed_as_consumed(&store).await;
        ran.notified().await;
        while store.operation("op").await.expect("reads").is_none_or(|op| op.state != OperationState::Done) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let every = postrider::presence::LOOPS.map(|(name, _)| name.to_owned()).into();
        while !store.instances(LIVE).await.expect("reads").iter().any(|one| one.running.loops == every) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), everything).await.expect("every loop works");
    stop.cancel();
    running.await.expect("no panic").expect("it ends well");
}

/// One loop that fails ends all: a service that does half of its work would not be noticed.
#[tokio::test]
async fn a_loop_that_fails_ends_the_service() {
    let store = MemoryStore::new();
    let inbox = Inbox::new(store.clone()).consumer(Points).consumer(Points);
    let running = Service::new(store).inbox(inbox).run(std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(30), running).await.expect("it ends");
    let error = ended.expect_err("it was registered wrongly").to_string();
    assert!(error.starts_with("points is registered twice"), "{error}");
}

/// A loop of the program begins and stops with the others, and ends them when it fails.
#[tokio::test]
async fn a_loop_of_the_program_stops_with_the_others() {
    let stop = CancellationToken::new();
    let begun = Arc::new(Notify::new());
    let (begins, ended) = (Arc::clone(&begun), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&ended);
    let service = Service::new(MemoryStore::new()).also(|stopping| async move {
        begins.notify_one();
        stopping.await;
        ends.store(true, Ordering::Relaxed);
        Ok(())
    });
    let running = tokio::spawn(service.run(stop.clone().cancelled_owned()));
    begun.notified().await;
    assert!(!ended.load(Ordering::Relaxed));
    stop.cancel();
    running.await.expect("no panic").expect("it ends well");
    assert!(ended.load(Ordering::Relaxed));

    let fails = |_| async { Err(postrider::Error::Unsupported("the queue has other settings".into())) };
    let failing = Service::new(MemoryStore::new()).also(fails).run(std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(30), failing).await.expect("it ends");
    assert!(ended.expect_err("the loop failed").to_string().contains("queue"));
}
