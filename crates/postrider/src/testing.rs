//! Helpers for tests. Behind the feature `testing`, so that no release program has them:
//!
//! ```toml
//! [dev-dependencies]
//! postrider = { version = "0.1", features = ["testing"] }
//! ```
//!
//! A test of a producer checks what it enqueued. A test of a consumer delivers everything that is due, and checks the
//! effect. Both in one test, on the store in memory:
//!
//! ```
//! use postrider::store::memory::{Conn, MemoryStore};
//! use postrider::testing::{assert_enqueued, deliver_twice, drain};
//! use postrider::{Consumer, Enlist, Event, Failure, Inbox, Outbox, Received};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)]
//! # struct OrderPaid { order_id: i64 }
//! # impl Event for OrderPaid {
//! #     const TOPIC: &'static str = "order.paid";
//! #     fn event_id(&self) -> Option<String> { Some(format!("order:{}:paid", self.order_id)) }
//! # }
//!
//! /// The program under test: a producer …
//! async fn pay(tx: &mut Conn, outbox: &Outbox<MemoryStore>, order_id: i64) -> postrider::Result<()> {
//!     outbox.enqueue(tx, &OrderPaid { order_id }).await?;
//!     Ok(())
//! }
//!
//! /// … and a consumer.
//! struct Points;
//! impl Consumer<MemoryStore> for Points {
//!     const NAME: &'static str = "points";
//!     type Event = OrderPaid;
//!     async fn handle(&self, tx: &mut Conn, _: Received<OrderPaid>) -> Result<(), Failure> {
//!         Ok(tx.add("points")?) // a counter of the store in memory stands for your tables
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> postrider::Result<()> {
//! let store = MemoryStore::new();
//! let outbox = Outbox::new(store.clone());
//! store.make_counter("points").await;
//! let inbox = || Inbox::new(store.clone()).consumer(Points);
//!
//! let mut tx = store.begin().await?;
//! pay(&mut tx, &outbox, 7).await?;
//! store.commit(tx).await?;
//! assert_enqueued::<OrderPaid>(&store, |paid| paid.order_id == 7).await;
//!
//! let left = drain(&store, inbox()).await;
//! assert!(left.is_empty(), "everything was consumed: {left:?}");
//! assert_eq!(store.counter("points"), Some(1));
//!
//! deliver_twice(&store, inbox, "order:7:paid").await;
//! assert_eq!(store.counter("points"), Some(1), "and still once");
//! # Ok(())
//! # }
//! ```
//!
//! Every helper fails the test that calls it, with a text that names the caller's line. They work on every store, and
//! see only committed transactions.
//!
//! # Time
//!
//! A test never has to wait for a delay, a retry or a lease. The store in memory takes a clock that is set by hand:
//! see [`ManualClock`](crate::clock::ManualClock). Databases have their own clocks, which a test cannot set: there
//! [`Age::age`] moves the stored times back, with the same effect.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use crate::envelope::Envelope;
use crate::error::Result;
use crate::event::Event;
use crate::relay::Relay;
use crate::store::{History, LaneCounts, Record, Redriven, Store};
use crate::transport::{Lane, Transport};

/// Maximum number of events that a failing assertion lists.
const LISTED: usize = 20;
/// Maximum number of characters of a payload in such a list.
const LISTED_CHARS: usize = 200;

/// Makes the clock of this whole process wrong, as on a machine without time synchronisation. Positive: ahead.
pub fn skew_clock(milliseconds: i64) {
    crate::clock::skew(milliseconds);
}

/// Reads a receipt of the broker and writes it again; `None` if it is no receipt. For fuzzing.
#[cfg(feature = "rabbitmq")]
pub fn reread_receipt(text: &str) -> Option<String> {
    crate::transport::rabbitmq::reread_receipt(text)
}

/// Moves stored times back, so that no test has to sleep until a lease ends.
pub trait Age: Store {
    /// Moves every stored time back, as if `by` had passed.
    fn age(&self, by: Duration) -> impl Future<Output = Result<()>> + Send;
}

/// Reads what is stored, delivered or not. It is only for tests, because it reads a topic from its beginning.
pub trait Peek: Store {
    /// Every committed event of a topic that has not been pruned, in the order of their sequence.
    fn enqueued(&self, topic: &str) -> impl Future<Output = Result<Vec<Envelope>>> + Send;
}

/// Fails unless a matching event of the type `E` was enqueued, and lists what was enqueued on its topic instead.
/// Returns the first match, delivered or not.
///
/// ```
/// # use postrider::store::memory::MemoryStore;
/// # use postrider::{Enlist, Event, Outbox};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct OrderPaid { order_id: i64, amount_cents: i64 }
/// # impl Event for OrderPaid { const TOPIC: &'static str = "order.paid"; }
/// # #[tokio::main]
/// # async fn main() -> postrider::Result<()> {
/// # let store = MemoryStore::new();
/// # let outbox = Outbox::new(store.clone());
/// use postrider::testing::assert_enqueued;
///
/// let mut tx = store.begin().await?;
/// outbox.enqueue(&mut tx, &OrderPaid { order_id: 7, amount_cents: 9_900 }).await?;
/// store.commit(tx).await?;
///
/// let paid = assert_enqueued::<OrderPaid>(&store, |paid| paid.order_id == 7).await;
/// assert_eq!(paid.amount_cents, 9_900);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn assert_enqueued<E: Event>(store: &impl Peek, fits: impl Fn(&E) -> bool) -> impl Future<Output = E> {
    let caller = Location::caller();
    async move {
        let stored = read::<E>(store, caller).await;
        let listed = list(&stored);
        let mut fitting = stored.into_iter().filter_map(|(_, event)| event.ok()).filter(|event| fits(event));
        fitting.next().unwrap_or_else(|| {
            if listed.is_empty() {
                panic!("{caller}: nothing was enqueued on {}; was its transaction committed?", E::TOPIC)
            } else {
                panic!("{caller}: no {} that fits was enqueued, but these were:{listed}", E::TOPIC)
            }
        })
    }
}

/// Fails if a matching event of the type `E` was enqueued, and lists the matches. An event of the topic that does not
/// decode as `E` might match, so it fails too.
///
/// ```
/// # use postrider::store::memory::MemoryStore;
/// # use postrider::{Enlist, Event, Outbox};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct OrderPaid { order_id: i64 }
/// # impl Event for OrderPaid { const TOPIC: &'static str = "order.paid"; }
/// # #[tokio::main]
/// # async fn main() -> postrider::Result<()> {
/// # let store = MemoryStore::new();
/// # let outbox = Outbox::new(store.clone());
/// use postrider::testing::refute_enqueued;
///
/// let mut tx = store.begin().await?;
/// outbox.enqueue(&mut tx, &OrderPaid { order_id: 7 }).await?;
/// drop(tx); // rolled back, and its event with it
///
/// refute_enqueued::<OrderPaid>(&store, |_| true).await;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn refute_enqueued<E: Event>(store: &impl Peek, fits: impl Fn(&E) -> bool) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let mut stored = read::<E>(store, caller).await;
        stored.retain(|(_, event)| event.as_ref().map_or(true, &fits));
        assert!(stored.is_empty(), "{caller}: no such {} was to be enqueued, but:{}", E::TOPIC, list(&stored));
    }
}

/// Delivers everything that is due, and everything that this causes. Returns the number of remaining deliveries by
/// lane: failed ones that wait for another attempt, dead ones, and those that are due later. The map is empty if
/// nothing remains.
///
/// ```
/// # use postrider::store::memory::{Conn, MemoryStore};
/// # use postrider::{Enlist, Event, Failure, Inbox, Outbox, OutsideConsumer, Received};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct OrderPaid { order_id: i64 }
/// # impl Event for OrderPaid { const TOPIC: &'static str = "order.paid"; }
/// # #[tokio::main]
/// # async fn main() -> postrider::Result<()> {
/// # let store = MemoryStore::new();
/// # let outbox = Outbox::new(store.clone());
/// # let mut tx = store.begin().await?;
/// # outbox.enqueue(&mut tx, &OrderPaid { order_id: 7 }).await?;
/// # store.commit(tx).await?;
/// use postrider::testing::drain;
///
/// struct Mail;
/// impl OutsideConsumer for Mail {
///     const NAME: &'static str = "mail";
///     type Event = OrderPaid;
///     async fn handle(&self, _: Received<OrderPaid>) -> Result<(), Failure> {
///         Err(Failure::retry("the mail server is down"))
///     }
/// }
///
/// let left = drain(&store, Inbox::new(store.clone()).outside(Mail)).await;
/// assert_eq!(left["mail"].failed, 1, "it will be tried again");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn drain<S: Store + Clone>(
    store: &S,
    transport: impl Transport,
) -> impl Future<Output = BTreeMap<String, LaneCounts>> {
    let caller = Location::caller();
    async move {
        expect(Relay::new(store.clone(), transport).drain().await, caller);
        expect(store.counts().await, caller)
    }
}

/// Delivers everything that is due, then this event once more to every lane that has consumed it, as if each worker
/// had died after its effect and before it could record it. The test asserts that the effect happened once.
///
/// A [`Consumer`](crate::Consumer) is not called again. An [`OutsideConsumer`](crate::OutsideConsumer) is, and the
/// system that it calls must know the idempotency key:
///
/// ```
/// # use postrider::store::memory::MemoryStore;
/// # use postrider::{Enlist, Event, Failure, Inbox, Outbox, OutsideConsumer, Received};
/// # use std::collections::BTreeSet;
/// # use std::sync::{Arc, Mutex};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct OrderPaid { order_id: i64 }
/// # impl Event for OrderPaid {
/// #     const TOPIC: &'static str = "order.paid";
/// #     fn event_id(&self) -> Option<String> { Some(format!("order:{}:paid", self.order_id)) }
/// # }
/// use postrider::testing::deliver_twice;
///
/// /// Stands for a mail server that sends one mail for each key.
/// #[derive(Clone, Default)]
/// struct Mails(Arc<Mutex<BTreeSet<String>>>);
///
/// impl OutsideConsumer for Mails {
///     const NAME: &'static str = "mail";
///     type Event = OrderPaid;
///     async fn handle(&self, paid: Received<OrderPaid>) -> Result<(), Failure> {
///         self.0.lock().unwrap().insert(paid.idempotency_key());
///         Ok(())
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> postrider::Result<()> {
/// # let store = MemoryStore::new();
/// # let outbox = Outbox::new(store.clone());
/// # let mut tx = store.begin().await?;
/// # outbox.enqueue(&mut tx, &OrderPaid { order_id: 7 }).await?;
/// # store.commit(tx).await?;
/// let mails = Mails::default();
/// deliver_twice(&store, || Inbox::new(store.clone()).outside(mails.clone()), "order:7:paid").await;
/// assert_eq!(mails.0.lock().unwrap().len(), 1);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn deliver_twice<S, T>(store: &S, transport: impl Fn() -> T, event_id: &str) -> impl Future<Output = ()>
where
    S: Store + Clone,
    T: Transport,
{
    let caller = Location::caller();
    async move {
        let first = transport();
        let lanes = first.lanes();
        expect(Relay::new(store.clone(), first).drain().await, caller);
        let found = find(store, event_id, caller).await;
        let lanes: Vec<_> = lanes.iter().filter(|lane| has_consumed(lane, &found)).collect();
        assert!(!lanes.is_empty(), "{caller}: no consumer has consumed {event_id}:{}", waiting(&found));
        for lane in &lanes {
            let redriven = expect(store.redrive(event_id, &lane.name, None).await, caller);
            let again = matches!(redriven, Redriven::Made | Redriven::Due);
            assert!(again, "{caller}: {event_id} cannot be delivered to {} again: {redriven:?}", lane.name);
        }
        expect(Relay::new(store.clone(), transport()).drain().await, caller);
        let found = find(store, event_id, caller).await;
        let left = found.deliveries.iter().any(|left| lanes.iter().any(|lane| *lane.name == left.lane));
        assert!(!left, "{caller}: {event_id} was not consumed the second time:{}", waiting(&found));
    }
}

async fn find(store: &impl Store, event_id: &str, caller: &Location<'_>) -> Record {
    let found = expect(store.find(event_id).await, caller);
    found.unwrap_or_else(|| panic!("{caller}: there is no event {event_id}; was its transaction committed?"))
}

/// Whether a lane has consumed an event, by its history. A lane without history has no delivery left.
fn has_consumed(lane: &Lane, found: &Record) -> bool {
    let hears = lane.topics.is_empty() || lane.topics.contains(&found.envelope.topic);
    match lane.options.history {
        History::Keep => found.consumptions.iter().any(|one| one.success == Some(true) && one.consumer == *lane.name),
        History::Omit => hears && !found.deliveries.iter().any(|left| left.lane == *lane.name),
    }
}

type Read<E> = (Envelope, Result<E, serde_json::Error>);

async fn read<E: Event>(store: &impl Peek, caller: &Location<'_>) -> Vec<Read<E>> {
    let stored = expect(store.enqueued(E::TOPIC).await, caller);
    let decode = |envelope: Envelope| {
        let event = serde_json::from_str(&envelope.payload);
        (envelope, event)
    };
    stored.into_iter().map(decode).collect()
}

fn expect<T>(done: Result<T>, caller: &Location<'_>) -> T {
    done.unwrap_or_else(|error| panic!("{caller}: {}", crate::Failure::from(error)))
}

/// One event per line, after a line break.
fn list<E>(stored: &[Read<E>]) -> String {
    let mut text = String::new();
    for (envelope, event) in stored.iter().take(LISTED) {
        let payload: String = envelope.payload.chars().take(LISTED_CHARS).collect();
        let cut = if payload.len() < envelope.payload.len() { "…" } else { "" };
        let _ = write!(text, "\n  {}  {payload}{cut}", envelope.event_id);
        if let Err(error) = event {
            let _ = write!(text, "  (cannot be decoded: {error})");
        }
    }
    if stored.len() > LISTED {
        let _ = write!(text, "\n  … and {} more", stored.len() - LISTED);
    }
    text
}

/// The deliveries of an event, one per line.
fn waiting(found: &Record) -> String {
    if found.deliveries.is_empty() {
        return " no consumer of its topic has a delivery of it".into();
    }
    let mut text = String::new();
    for left in &found.deliveries {
        let error = left.last_error.as_deref().unwrap_or("not tried");
        let _ = write!(text, "\n  {} is {:?} after {} attempts: {error}", left.lane, left.status, left.attempts);
    }
    text
}
