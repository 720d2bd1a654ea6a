//! A store over the program's own pool: its transactions run there, and the store adds a few connections.

use postrider::prelude::*;
use postrider::{Draft, Error, Inbox, OutsideConsumer, Received, Relay, Subscription, Via};
use postrider::{Event, Failure, Outbox};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Paid(String);

impl Event for Paid {
    const TOPIC: &'static str = "order.paid";
}

struct Points;

impl OutsideConsumer for Points {
    const NAME: &'static str = "points";
    type Event = Paid;

    async fn handle(&self, _: Received<Paid>) -> Result<(), Failure> {
        Ok(())
    }
}

/// A.1: what a transaction wrote exists after its commit, and does not after an error; a transaction that the
/// database rolled back is retried; and a relay delivers the event.
pub(crate) async fn transactions_of_the_programs_pool<S: Enlist>(store: S) {
    store.migrate().await.expect("migrates");
    store.set_subscription(&Subscription::new(Paid::TOPIC, "points", Via::Local)).await.expect("subscribes");
    let outbox = &Outbox::new(store.clone());
    let draft = |id: &str| Draft::of(&Paid(id.into())).expect("is JSON").event_id(id);

    let tries = &std::sync::atomic::AtomicU32::new(0);
    let committed: postrider::Result<()> = store
        .transaction(|mut tx| async move {
            outbox.enqueue(&mut tx, draft("kept")).await?;
            match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => Err(Error::TransactionLost("a deadlock".into())),
                _ => Ok((tx, ())),
            }
        })
        .await;
    committed.expect("the second try commits");
    assert_eq!(tries.load(std::sync::atomic::Ordering::Relaxed), 2);
    let refused: Result<(), Box<dyn std::error::Error + Send + Sync>> = store
        .transaction(|mut tx| async move {
            outbox.enqueue(&mut tx, draft("lost")).await?;
            Err("no".into())
        })
        .await;
    assert_eq!(refused.expect_err("it fails").to_string(), "no");
    assert!(store.find("lost").await.expect("reads").is_none());

    Relay::new(store.clone(), Inbox::new(store.clone()).outside(Points)).drain().await.expect("delivers");
    let kept = store.find("kept").await.expect("reads").expect("it was committed");
    assert!(kept.deliveries.is_empty() && kept.consumptions.len() == 1);
}
