//! A store over the program's own pool: its transactions run there, and the store adds a few connections.

use std::pin::Pin;

use postrider::prelude::*;
use postrider::{Consumer, Draft, Error, Inbox, Received, Relay, Subscription, Via};
use postrider::{Event, Failure, Outbox};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Paid(String);

impl Event for Paid {
    const TOPIC: &'static str = "order.paid";
}

/// Writes to a temporary table, which only the program's own session has.
pub(crate) type Mark<S> =
    for<'c> fn(&'c mut <S as Enlist>::Conn) -> Pin<Box<dyn Future<Output = sqlx::Result<()>> + Send + 'c>>;

/// The table that a [`Mark`] writes to. The program's pool has one session.
pub(crate) const MARKS: &str = "CREATE TEMPORARY TABLE mark (n INT)";
pub(crate) const MARK: &str = "INSERT INTO mark VALUES (1)";

struct Points<S: Enlist>(Mark<S>);

impl<S: Enlist + 'static> Consumer<S> for Points<S> {
    const NAME: &'static str = "points";
    type Event = Paid;

    async fn handle(&self, tx: &mut S::Conn, _: Received<Paid>) -> Result<(), Failure> {
        (self.0)(tx).await.map_err(Failure::reject)
    }
}

/// A.1: what a transaction wrote exists after its commit, and does not after an error; a transaction that the
/// database rolled back is retried; and a relay delivers the event. Each of these transactions, and the consumer's, runs on the
/// session of the program's pool.
pub(crate) async fn transactions_of_the_programs_pool<S: Enlist + 'static>(store: S, mark: Mark<S>) {
    store.migrate().await.expect("migrates");
    store.set_subscription(&Subscription::new(Paid::TOPIC, "points", Via::Local)).await.expect("subscribes");
    let outbox = &Outbox::new(store.clone());
    let draft = |id: &str| Draft::of(&Paid(id.into())).expect("is JSON").event_id(id);

    let tries = &std::sync::atomic::AtomicU32::new(0);
    let committed: postrider::Result<()> = store
        .transaction(|mut tx| async move {
            mark(&mut tx).await?;
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

    Relay::new(store.clone(), Inbox::new(store.clone()).consumer(Points(mark))).drain().await.expect("delivers");
    let kept = store.find("kept").await.expect("reads").expect("it was committed");
    assert!(kept.deliveries.is_empty() && kept.consumptions.len() == 1);
    let mut tx = store.begin().await.expect("begins");
    mark(&mut tx).await.expect("this is the program's session too");
}
