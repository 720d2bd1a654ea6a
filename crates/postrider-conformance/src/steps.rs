//! Shared steps of the cases.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::redrive::Refusal;
use postrider::store::{Buried, Claim, DeadHead, Delivery, DeliveryId, Failed, History, Lease, Record, Token};
use postrider::testing::Age;
use postrider::{Draft, Enqueued, Error, Outbox, Subscription, Via};
use tracing_subscriber::util::SubscriberInitExt;

use crate::Harness;

pub(crate) const TOPIC: &str = "order.paid";
pub(crate) const LANE: &str = "points";
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// Longer than any case runs, even on a busy machine.
pub(crate) const LEASE: Duration = Duration::from_secs(1800);
/// The time limit for a call that must not block.
pub(crate) const PROMPTLY: Duration = Duration::from_secs(5);

/// Sets a subscription, as an operator does.
pub(crate) async fn subscribe(h: &impl Harness, topic: &str, consumer: &str, via: Via) {
    let mut subscription = Subscription::new(topic, consumer, via);
    subscription.endpoint = (via == Via::Webhook).then(|| "https://example.org/hook".into());
    h.store().set_subscription(&subscription).await.unwrap();
}

/// Subscribes [`LANE`] to [`TOPIC`]: one consumer with its own lane.
pub(crate) async fn subscribe_lane(h: &impl Harness) {
    subscribe(h, TOPIC, LANE, Via::Local).await;
}

pub(crate) fn draft(event_id: impl Into<String>) -> Draft {
    let event_id = event_id.into();
    Draft::json(TOPIC, &serde_json::json!({ "n": event_id })).unwrap().event_id(event_id)
}

/// `n` drafts without a key.
pub(crate) fn drafts(n: usize) -> Vec<Draft> {
    (0..n).map(|n| draft(format!("e{n:05}"))).collect()
}

/// Drafts of one key, in order: `a1`, `a2`, … for the key `a`.
pub(crate) fn keyed(key: &str, n: usize) -> Vec<Draft> {
    (1..=n).map(|n| draft(format!("{key}{n}")).key(key)).collect()
}

/// Writes events in a transaction and commits it.
pub(crate) async fn enqueue<H: Harness>(h: &H, drafts: impl IntoIterator<Item = Draft>) -> Vec<Enqueued> {
    let outbox = Outbox::new(h.store().clone());
    let mut drafts = drafts.into_iter().peekable();
    let mut enqueued = Vec::new();
    while drafts.peek().is_some() {
        let batch: Vec<Draft> = drafts.by_ref().take(1000).collect();
        let mut tx = h.store().begin().await.unwrap();
        enqueued.extend(outbox.enqueue_many(&mut *tx, batch).await.unwrap());
        h.store().commit(tx).await.unwrap();
    }
    enqueued
}

pub(crate) async fn enqueue_one<H: Harness>(h: &H, draft: Draft) -> Enqueued {
    enqueue(h, [draft]).await.remove(0)
}

/// Writes an event by plain `INSERT`, committed.
pub(crate) async fn insert_plainly<H: Harness>(h: &H, event_id: &str) {
    let mut tx = h.store().begin().await.unwrap();
    h.insert_plainly(&mut *tx, event_id, TOPIC, r#"{"by":"hand"}"#).await;
    h.store().commit(tx).await.unwrap();
}

pub(crate) fn wanted(limit: u32) -> Claim {
    Claim { lease: LEASE, ..Claim::new(LANE, limit) }
}

pub(crate) async fn claim(h: &impl Harness, limit: u32) -> Lease {
    h.store().claim(&wanted(limit)).await.unwrap()
}

pub(crate) async fn claim_keyed(h: &impl Harness, limit: u32) -> Lease {
    let claim = wanted(limit);
    h.store().claim_keyed(&claim, DeadHead::Hold).await.unwrap()
}

/// Claims keyed deliveries until a claim is empty. One claim may cover only some of the shards.
pub(crate) async fn claim_all_keyed(h: &impl Harness, dead_head: DeadHead) -> Vec<Lease> {
    let mut leases = Vec::new();
    loop {
        let lease = h.store().claim_keyed(&wanted(500), dead_head).await.unwrap();
        if lease.deliveries.is_empty() {
            return leases;
        }
        leases.push(lease);
    }
}

pub(crate) async fn age(h: &impl Harness, by: Duration) {
    h.store().age(by).await.unwrap();
}

/// The event ids of a lease, in its order.
pub(crate) fn ids(lease: &Lease) -> Vec<&str> {
    let ids = lease.deliveries.iter();
    ids.map(|claimed| claimed.envelope.event_id.as_str()).collect()
}

pub(crate) fn failed(id: DeliveryId, after: Duration) -> Failed {
    Failed { id, after, error: "boom".into(), code: Some("E1".into()) }
}

pub(crate) fn buried(id: DeliveryId) -> Buried {
    Buried { id, tried: true, error: "boom".into(), code: Some("E1".into()) }
}

pub(crate) async fn settle(h: &impl Harness, lease: &Lease) {
    let settled = h.store().settle(lease.token, &lease.ids(), History::Omit).await;
    assert_eq!(settled.unwrap().len(), lease.deliveries.len(), "all of it is settled");
}

pub(crate) async fn find(h: &impl Harness, event_id: &str) -> Record {
    let found = h.store().find(event_id).await.unwrap();
    found.unwrap_or_else(|| panic!("there is no event {event_id}"))
}

pub(crate) async fn is_stored(h: &impl Harness, event_id: &str) -> bool {
    h.store().find(event_id).await.unwrap().is_some()
}

/// The delivery of the event on [`LANE`].
pub(crate) async fn delivery(h: &impl Harness, event_id: &str) -> Delivery {
    let found = find(h, event_id).await;
    let mut on_lane = found.deliveries.into_iter().filter(|d| d.lane == LANE);
    let delivery = on_lane.next();
    delivery.unwrap_or_else(|| panic!("{event_id} has no delivery on {LANE}"))
}

pub(crate) async fn status(h: &impl Harness, event_id: &str) -> DeliveryStatus {
    delivery(h, event_id).await.status
}

/// Buries the first delivery of a key, which must be claimable.
pub(crate) async fn bury_head(h: &impl Harness, event_id: &str) {
    let lease = claim_keyed(h, 500).await;
    let head = lease.deliveries.iter().find(|d| d.envelope.event_id.as_str() == event_id);
    let burial = [buried(head.expect("the head is claimed").id)];
    let gone = h.store().bury(lease.token, &burial, History::Omit).await.unwrap();
    assert_eq!(gone.len(), 1);
    // `bury` has already released the followers of the key; this releases the other keys.
    h.store().release(lease.token, &lease.ids()).await.unwrap();
}

/// Calls extend, retry, bury, release and settle with an outdated token, and asserts that nothing changes.
pub(crate) async fn nothing_is_written(h: &impl Harness, old: Token, ids: &[DeliveryId], event_id: &str) {
    let store = h.store();
    let before = format!("{:?}", find(h, event_id).await);
    let failures: Vec<Failed> = ids.iter().map(|id| failed(*id, HOUR)).collect();
    let burials = ids.iter().map(|id| buried(*id)).collect::<Vec<_>>();
    let nothing = Vec::<DeliveryId>::new();
    assert_eq!(store.extend(old, ids, HOUR * 9).await.unwrap(), nothing, "extend");
    assert_eq!(store.retry(old, &failures, History::Keep).await.unwrap(), nothing, "retry");
    assert_eq!(store.bury(old, &burials, History::Keep).await.unwrap(), nothing, "bury");
    assert_eq!(store.release(old, ids).await.unwrap(), nothing, "release");
    assert_eq!(store.settle(old, ids, History::Keep).await.unwrap(), nothing, "settle");
    assert_eq!(format!("{:?}", find(h, event_id).await), before, "the row is unchanged");
}

/// Returns the expired lease of a delivery and the lease that replaced it.
pub(crate) async fn expired_and_current_lease(h: &impl Harness) -> (Lease, Lease) {
    subscribe_lane(h).await;
    enqueue_one(h, draft("e")).await;
    let zombie = claim(h, 1).await;
    age(h, HOUR).await;
    let successor = claim(h, 1).await;
    assert_eq!((ids(&zombie), ids(&successor)), (vec!["e"], vec!["e"]));
    assert_ne!(zombie.token, successor.token);
    (zombie, successor)
}

/// Runs tasks at the same time and waits for all.
pub(crate) async fn together<T, F>(tasks: impl IntoIterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let mut done = Vec::new();
    for task in running {
        done.push(task.await.unwrap());
    }
    done
}

/// Compares two durations with a tolerance of one minute for a busy machine.
pub(crate) fn is_about(actual: Duration, expected: Duration) -> bool {
    actual.abs_diff(expected) < MINUTE
}

/// Prints that a case does not apply to this store, so that it is not counted as passed.
#[allow(clippy::print_stderr)]
pub(crate) fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}

/// Runs `work` on this thread, and returns the warnings and errors that it logs.
pub(crate) async fn logged<T>(work: impl Future<Output = T>) -> (T, String) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&log);
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(move || Log(Arc::clone(&writer)));
    let guard = subscriber.finish().set_default();
    let done = work.await;
    drop(guard);
    let text = String::from_utf8_lossy(&log.lock().unwrap()).into_owned();
    (done, text)
}

struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Error text that no store accepts unchanged: it contains a NUL and is five times too long.
pub(crate) fn oversized_text() -> String {
    format!("a\0b{}", "错".repeat(5_000))
}

/// Whether this is [`oversized_text`] as stored: 1,000 characters, NUL replaced.
pub(crate) fn is_cut_to_limit(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.chars().count() == 1_000 && text.starts_with("a\u{fffd}b错") && !text.contains('\0'))
}

/// A deterministic pseudo-random generator: the same sequence in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Returns true for about one call in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).is_multiple_of(n)
    }
}

/// Separates a rule that forbids a redrive or an expiry from errors of the store, which fail the test.
pub(crate) fn ruled<T: std::fmt::Debug>(answer: postrider::Result<T>) -> Result<T, Refusal> {
    match answer {
        Ok(done) => Ok(done),
        Err(Error::Refused(refusal)) => Err(refusal),
        Err(error) => panic!("the store failed: {error}"),
    }
}
