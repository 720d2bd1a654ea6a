//! The relay with a clock that only moves when all tasks are idle.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use postrider::prelude::*;
use postrider::store::memory::MemoryStore;
use postrider::{Event, Failure, Inbox, Outbox, OutsideConsumer, Received, Relay, Subscription, Via};
use serde::{Deserialize, Serialize};
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
