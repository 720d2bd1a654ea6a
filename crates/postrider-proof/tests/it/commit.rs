//! The connection fails after COMMIT was sent: the database has committed, but the client has no answer.

use std::sync::Arc;

use postrider::{Consumer, Draft, Enqueued, Error, Event, Failure, Inbox, Outbox, Received, Relay};
use postrider_proof::effect::Effect;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::database::{Database, TIMEOUT, over_each_typed_server};

over_each_typed_server! {
    /// F34: committed, but the client does not know. Writing the same id again is a duplicate, never a second event.
    a_commit_whose_answer_is_lost_is_one_event,
    /// F34: the connection fails before COMMIT arrives. The repeated call writes the event.
    a_commit_that_never_arrived_is_repeated,
    /// F34: the answer to a consumer's commit is lost. The relay assumes a failure; there is still one effect.
    a_consumer_whose_commit_is_not_answered_has_one_effect,
}

#[derive(Serialize, Deserialize)]
struct Done {
    counter: String,
}

impl Event for Done {
    const TOPIC: &'static str = "work.done";
}

fn draft(event: &str) -> Draft {
    Draft::of(&Done { counter: event.into() }).unwrap().event_id(event)
}

fn events(event: &str) -> String {
    format!("SELECT count(*) FROM postrider_event WHERE event_id = '{event}'")
}

async fn store<S: Effect>(url: &str) -> S {
    S::with_connections(url, 10).await.unwrap()
}

async fn a_commit_whose_answer_is_lost_is_one_event<S: Effect>(database: &Database) {
    let (proxy, url) = database.proxy().await;
    let store: S = store(&url).await;
    let outbox = Outbox::new(store.clone());

    let mut tx = store.begin().await.unwrap();
    outbox.enqueue(&mut tx, draft("known")).await.unwrap();
    proxy.hold_answers();
    let committing = tokio::spawn({
        let store = store.clone();
        async move { store.commit(tx).await }
    });
    database.until(&events("known"), 1).await;
    proxy.reset();
    let unknown = committing.await.unwrap();
    assert!(matches!(unknown, Err(Error::Unavailable(_))), "neither success nor failure is reported: {unknown:?}");

    let mut tx = store.begin().await.unwrap();
    let again = outbox.enqueue(&mut tx, draft("known")).await.unwrap();
    assert!(matches!(again, Enqueued::Duplicate(_)), "{again:?}");
    store.commit(tx).await.unwrap();
    assert_eq!(database.number(&events("known")).await, 1);
    assert_eq!(database.number("SELECT count(*) FROM postrider_delivery").await, 1);
}

async fn a_commit_that_never_arrived_is_repeated<S: Effect>(database: &Database) {
    let (proxy, url) = database.proxy().await;
    let store: S = store(&url).await;
    let outbox = Outbox::new(store.clone());

    let mut tx = store.begin().await.unwrap();
    outbox.enqueue(&mut tx, draft("lost")).await.unwrap();
    proxy.stall();
    let committing = tokio::spawn({
        let store = store.clone();
        async move { store.commit(tx).await }
    });
    proxy.reset();
    assert!(matches!(committing.await.unwrap(), Err(Error::Unavailable(_))));
    // The server has noticed the reset and rolled the transaction back.
    database.no_transaction_is_open().await;
    assert_eq!(database.number(&events("lost")).await, 0);

    let mut tx = store.begin().await.unwrap();
    let again = outbox.enqueue(&mut tx, draft("lost")).await.unwrap();
    assert!(matches!(again, Enqueued::Accepted(_)), "{again:?}");
    store.commit(tx).await.unwrap();
    assert_eq!(database.number(&events("lost")).await, 1);
}

/// Has its effect, and then waits until the test lets it commit.
struct Count {
    begun: Arc<Semaphore>,
    may_commit: Arc<Semaphore>,
}

impl<S: Effect> Consumer<S> for Count {
    const NAME: &'static str = "count";
    type Event = Done;

    async fn handle(&self, tx: &mut S::Conn, done: Received<Done>) -> Result<(), Failure> {
        S::add(tx, &done.counter, 0).await?;
        self.begun.add_permits(1);
        self.may_commit.acquire().await?.forget();
        Ok(())
    }
}

async fn a_consumer_whose_commit_is_not_answered_has_one_effect<S: Effect>(database: &Database) {
    let (proxy, url) = database.proxy().await;
    let (store, direct): (S, S) = (store(&url).await, store(database.url()).await);
    let enqueue = async |event: &str| {
        let mut tx = direct.begin().await.unwrap();
        S::make(&mut tx, event).await.unwrap();
        Outbox::new(direct.clone()).enqueue(&mut tx, draft(event)).await.unwrap();
        direct.commit(tx).await.unwrap();
    };
    enqueue("e").await;

    let (begun, may_commit) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let count = Count { begun: Arc::clone(&begun), may_commit: Arc::clone(&may_commit) };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let relay = Relay::new(store.clone(), Inbox::new(store.clone()).consumer(count));
    let relay = tokio::spawn(relay.run(async { stopped.await.unwrap_or_default() }));
    begun.acquire().await.unwrap().forget();
    proxy.hold_answers_to("COMMIT");
    may_commit.add_permits(1_000);
    database.until("SELECT n FROM counter WHERE name = 'e'", 1).await;
    proxy.hold_answers_to("");
    proxy.reset();

    // The relay records its failure after it reconnects. The delivery is gone, so the write changes nothing.
    enqueue("next").await;
    database.until("SELECT n FROM counter WHERE name = 'next'", 1).await;
    stop.send(()).unwrap();
    tokio::time::timeout(TIMEOUT, relay).await.expect("it ends").unwrap().unwrap();
    database.every_effect_happened_once(2).await;
}
