//! The relay with a clock that only moves when all tasks are idle.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use postrider::clock::Clock;
use postrider::jobs::Schedule;
use postrider::prelude::*;
use postrider::store::memory::MemoryStore;
use postrider::{
    Envelope, Event, EventId, Failure, Inbox, Outbox, OutsideConsumer, Received, Relay, RelayOptions, Subscription, Via,
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::datetime;
use tokio::sync::mpsc;
use tokio::time::Instant;

#[derive(Serialize, Deserialize)]
struct Paid {}

impl Event for Paid {
    const TOPIC: &'static str = "order.paid";
}

/// Takes a while, and records when it was done.
struct Slow(Arc<OnceLock<Instant>>);

impl OutsideConsumer for Slow {
    const NAME: &'static str = "slow";
    type Event = Paid;

    async fn handle(&self, _: Received<Paid>) -> Result<(), Failure> {
        tokio::time::sleep(Duration::from_secs(20)).await;
        self.0.get_or_init(Instant::now);
        Ok(())
    }
}

/// When nothing is left, a drain ends at once, not at the next look, which is rare while a lane works.
#[tokio::test(start_paused = true)]
async fn a_drain_ends_with_the_last_delivery() {
    let (store, done) = (MemoryStore::new(), Arc::default());
    store.set_subscription(&Subscription::new(Paid::TOPIC, Slow::NAME, Via::Local)).await.expect("subscribes");
    let mut tx = store.begin().await.expect("begins");
    Outbox::new(store.clone()).enqueue(&mut tx, &Paid {}).await.expect("enqueues");
    store.commit(tx).await.expect("commits");

    let inbox = Inbox::new(store.clone()).outside(Slow(Arc::clone(&done)));
    Relay::new(store, inbox).drain().await.expect("drains");
    let late = done.get().expect("it was delivered").elapsed();
    assert!(late < Duration::from_millis(100), "it went on for {late:?}");
}

/// Gives a store the clock of the runtime.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> OffsetDateTime {
        datetime!(2026-03-01 12:00 UTC) + self.0.elapsed()
    }
}

struct Sends(mpsc::UnboundedSender<String>);

impl OutsideConsumer for Sends {
    const NAME: &'static str = "sends";
    type Event = Paid;

    async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
        Ok(self.0.send(paid.envelope().event_id.to_string())?)
    }
}

/// A.4: a plain insert wakes no relay, and the next poll is a day away. The schedule finds it at its next slot.
#[tokio::test(start_paused = true)]
async fn with_all_wake_ups_cut_the_schedule_delivers() {
    let store = MemoryStore::with_clock(RuntimeClock(Instant::now()));
    let (sender, mut delivered) = mpsc::unbounded_channel();
    let inbox = Inbox::new(store.clone()).outside(Sends(sender));
    let options = RelayOptions {
        poll: Duration::from_secs(86_400),
        arrivals: Duration::from_secs(86_400),
        floor: Some(Schedule::parse("0/10 * * * * ?", "UTC").expect("a schedule")),
        ..RelayOptions::default()
    };
    let relay = tokio::spawn(Relay::new(store.clone(), inbox).options(options).run(std::future::pending()));
    for n in 0..3 {
        // Looks that find nothing double the time to the next one, up to the poll.
        tokio::time::sleep(Duration::from_secs(1_207)).await;
        let id = EventId::new(format!("order:{n}:paid")).expect("an id");
        let mut tx = store.begin().await.expect("begins");
        let now = store.now().await.expect("a time");
        tx.insert(Envelope::new(id.clone(), Paid::TOPIC, "{}", now)).expect("inserts");
        store.commit(tx).await.expect("commits");
        let inserted = Instant::now();
        assert_eq!(delivered.recv().await, Some(id.to_string()));
        let took = inserted.elapsed();
        assert!(took < Duration::from_millis(10_100), "event {n} took {took:?}");
        let slot = store.now().await.expect("a time");
        assert_eq!(slot.second() % 10, 0, "at a slot of the schedule, not at {slot}");
    }
    relay.abort();
}
