//! What a consumer can rely on with any transport: in the process or through a broker. The consumers and cases are the
//! same; only the [`Carrier`] differs.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postrider::alert::{Alarm, Alert};
use postrider::prelude::*;
use postrider::{
    BatchConsumer, Consumer, Draft, Event, Failure, Inbox, LaneOptions, Outbox, OutsideConsumer, RawEvent, Received,
    Relay, RetryPolicy, Transport,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::steps::*;
use crate::{Conn, Harness, PATIENCE};

/// Moves events from a store to the consumers of an inbox.
pub trait Carrier: Clone + Send + Sync + 'static {
    /// Makes sure that events written from now on reach all consumers of the inbox. A consumer misses events that were
    /// written before it was known.
    fn prepare<S: Enlist>(&self, store: &S, inbox: &Inbox<S>) -> impl Future<Output = postrider::Result<()>> + Send;

    /// Runs until `stop` is ready.
    fn carry<S: Enlist>(
        &self,
        store: S,
        inbox: Inbox<S>,
        alert: impl Alert,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = postrider::Result<()>> + Send + 'static;

    /// The lane and target of a redrive to one consumer only.
    fn way_to(&self, consumer: &str) -> (String, Option<String>);

    /// Cleans up after a passed case.
    fn finish(self) -> impl Future<Output = ()> + Send;
}

/// The relay calls the inbox directly, without a broker.
#[derive(Debug, Clone, Copy)]
pub struct InProcess;

impl Carrier for InProcess {
    async fn prepare<S: Enlist>(&self, store: &S, inbox: &Inbox<S>) -> postrider::Result<()> {
        inbox.prepare(store).await
    }

    fn carry<S: Enlist>(
        &self,
        store: S,
        inbox: Inbox<S>,
        alert: impl Alert,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = postrider::Result<()>> + Send + 'static {
        Relay::new(store, inbox).also_alert(alert).run(stop)
    }

    fn way_to(&self, consumer: &str) -> (String, Option<String>) {
        (consumer.into(), None)
    }

    async fn finish(self) {}
}

#[derive(Serialize, Deserialize)]
struct Paid {
    n: String,
}

impl Event for Paid {
    const TOPIC: &'static str = TOPIC;
}

#[derive(Serialize, Deserialize)]
struct Refunded {
    n: String,
}

impl Event for Refunded {
    const TOPIC: &'static str = "order.refunded";
}

type Then = Arc<dyn Fn(&Received<Paid>) -> Result<(), Failure> + Send + Sync>;

/// Increments the counter of the event, logs the event under its key, and calls `then`.
struct Count<H> {
    h: H,
    then: Then,
}

impl<H: Harness> Count<H> {
    fn new(h: &H) -> Self {
        Self::then(h, |_| Ok(()))
    }

    fn then(h: &H, then: impl Fn(&Received<Paid>) -> Result<(), Failure> + Send + Sync + 'static) -> Self {
        Self { h: h.clone(), then: Arc::new(then) }
    }
}

impl<H: Harness> Consumer<H::Store> for Count<H> {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
        self.h.add(tx, &paid.n).await?;
        if let Some(key) = &paid.envelope().key {
            self.h.write_down(tx, key, paid.n.trim_start_matches(char::is_alphabetic).parse()?).await;
        }
        (self.then)(&paid)
    }
}

/// A second consumer of the same events, with one counter for all of them.
struct Other<H>(H);

impl<H: Harness> Consumer<H::Store> for Other<H> {
    const NAME: &'static str = "other";
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, _: Received<Paid>) -> Result<(), Failure> {
        Ok(self.0.add(tx, "other").await?)
    }
}

#[derive(Clone)]
struct Alarms(mpsc::UnboundedSender<Alarm>);

#[async_trait]
impl Alert for Alarms {
    async fn alert(&self, alarm: &Alarm) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.0.send(alarm.clone())?)
    }
}

/// A running carrier.
struct Carrying {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<postrider::Result<()>>,
    alarms: mpsc::UnboundedReceiver<Alarm>,
}

impl Carrying {
    async fn start<H: Harness>(h: &H, carrier: &impl Carrier, inbox: Inbox<H::Store>) -> Self {
        carrier.prepare(h.store(), &inbox).await.unwrap();
        let ((stop, stopped), (alert, alarms)) = (oneshot::channel(), mpsc::unbounded_channel());
        let stopped = async { stopped.await.unwrap_or_default() };
        let ended = tokio::spawn(carrier.carry(h.store().clone(), inbox, Alarms(alert), stopped));
        Self { stop, ended, alarms }
    }

    /// The next dead delivery: event, attempts, reason.
    async fn dead(&mut self) -> (String, u32, String) {
        loop {
            match tokio::time::timeout(PATIENCE, self.alarms.recv()).await.expect("an alarm").unwrap() {
                Alarm::Dead { event_id, attempts, error, .. } => return (event_id, attempts, error),
                _ => continue,
            }
        }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

fn inbox<H: Harness>(h: &H) -> Inbox<H::Store> {
    Inbox::new(h.store().clone())
}

/// Retries as soon as the carrier can.
fn at_once(max_attempts: u32) -> LaneOptions {
    let retry = RetryPolicy { base: Duration::from_millis(10), factor: 1.0, max_attempts, ..RetryPolicy::default() };
    LaneOptions { retry, ..LaneOptions::default() }
}

fn names(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("e{n:05}")).collect()
}

/// Enqueues events, each with its own counter.
async fn enqueue_counted<H: Harness>(h: &H, drafts: impl IntoIterator<Item = Draft>, names: &[String]) {
    for name in names {
        h.make_counter(name).await;
    }
    enqueue(h, drafts).await;
}

/// Waits until a counter reaches a value, and fails if it exceeds it.
async fn until<H: Harness>(h: &H, counter: &str, wanted: i64) {
    // The carriers have no common signal, so this polls the database.
    while h.counter(counter).await < wanted {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(h.counter(counter).await, wanted, "{counter}");
}

async fn all_once<H: Harness>(h: &H, names: &[String]) {
    for name in names {
        until(h, name, 1).await;
    }
}

/// A.6, D.11: each consumer handles each event with one effect.
pub async fn every_consumer_has_every_effect_once<H: Harness, C: Carrier>(h: H, carrier: C) {
    h.make_counter("other").await;
    let names = names(100);
    let carrying = Carrying::start(&h, &carrier, inbox(&h).consumer(Count::new(&h)).consumer(Other(h.clone()))).await;
    enqueue_counted(&h, drafts(100), &names).await;
    all_once(&h, &names).await;
    until(&h, "other", 100).await;
    carrying.stop().await;
    all_once(&h, &names).await;
    until(&h, "other", 100).await;
}

/// A.5: an event fails twice and then succeeds. The effects of the failed
/// tries are rolled back, and other consumers do not wait.
pub async fn a_failure_is_tried_again<H: Harness, C: Carrier>(h: H, carrier: C) {
    h.make_counter("other").await;
    let tries = Arc::new(Mutex::new(Vec::new()));
    let tried = Arc::clone(&tries);
    let twice = move |paid: &Received<Paid>| {
        tried.lock().unwrap().push(paid.attempt());
        match paid.attempt() {
            1 | 2 => Err(Failure::retry("not yet")),
            _ => Ok(()),
        }
    };
    let inbox = inbox(&h).consumer_with(Count::then(&h, twice), at_once(10)).consumer(Other(h.clone()));
    let carrying = Carrying::start(&h, &carrier, inbox).await;
    enqueue_counted(&h, drafts(1), &names(1)).await;
    all_once(&h, &names(1)).await;
    until(&h, "other", 1).await;
    carrying.stop().await;
    assert_eq!(*tries.lock().unwrap(), [1, 2, 3]);
}

/// A.5: an event that fails too often, or is rejected, becomes dead with its reason. The other events are delivered.
pub async fn a_dead_event_has_a_reason<H: Harness, C: Carrier>(h: H, carrier: C) {
    let by_name = |paid: &Received<Paid>| match paid.n.as_str() {
        "e00001" => Err(Failure::retry("the wallet does not answer")),
        "e00002" => Err(Failure::reject("there is no such order")),
        _ => Ok(()),
    };
    let inbox = inbox(&h).consumer_with(Count::then(&h, by_name), at_once(2));
    let mut carrying = Carrying::start(&h, &carrier, inbox).await;
    enqueue_counted(&h, drafts(4), &names(4)).await;
    let mut dead = [carrying.dead().await, carrying.dead().await];
    dead.sort();
    assert_eq!(dead[0], ("e00001".into(), 2, "the wallet does not answer".into()));
    assert_eq!(dead[1], ("e00002".into(), 1, "there is no such order".into()));
    until(&h, "e00000", 1).await;
    until(&h, "e00003", 1).await;
    carrying.stop().await;
    assert_eq!((h.counter("e00001").await, h.counter("e00002").await), (0, 0), "without effect");
}

/// F19: only the undecodable event becomes dead.
pub async fn an_undecodable_event_harms_no_other<H: Harness, C: Carrier>(h: H, carrier: C) {
    // Without this policy it would be tried again: a newer program may know it.
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let options = LaneOptions { retry_by_code: [("undecodable".to_owned(), once)].into(), ..LaneOptions::default() };
    let mut carrying = Carrying::start(&h, &carrier, inbox(&h).consumer_with(Count::new(&h), options)).await;
    let odd = Draft::json(TOPIC, &serde_json::json!({ "amount": 5 })).unwrap().event_id("odd");
    enqueue_counted(&h, [draft("e00000"), odd, draft("e00001")], &names(2)).await;
    let (event, attempts, reason) = carrying.dead().await;
    assert_eq!((event.as_str(), attempts), ("odd", 1));
    assert!(reason.contains("missing field `n`"), "{reason}");
    all_once(&h, &names(2)).await;
    carrying.stop().await;
}

/// A panic fails one try of one event.
pub async fn a_panic_is_one_failure<H: Harness, C: Carrier>(h: H, carrier: C) {
    let panics = |paid: &Received<Paid>| match (paid.n.as_str(), paid.attempt()) {
        ("e00000", 1) => panic!("a bug"),
        _ => Ok(()),
    };
    let inbox = inbox(&h).consumer_with(Count::then(&h, panics), at_once(10));
    let carrying = Carrying::start(&h, &carrier, inbox).await;
    enqueue_counted(&h, drafts(3), &names(3)).await;
    all_once(&h, &names(3)).await;
    carrying.stop().await;
}

/// E.2, F20: repeated deliveries have one effect.
pub async fn delivered_again_it_has_no_second_effect<H: Harness, C: Carrier>(h: H, carrier: C) {
    h.make_counter("other").await;
    let handled = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&handled);
    let count = Count::then(&h, move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let carrying = Carrying::start(&h, &carrier, inbox(&h).consumer(count).consumer(Other(h.clone()))).await;
    enqueue_counted(&h, drafts(1), &names(1)).await;
    all_once(&h, &names(1)).await;
    until(&h, "other", 1).await;
    let (lane, target) = carrier.way_to(LANE);
    for _ in 0..3 {
        nothing_waits(&h).await;
        h.store().redrive("e00000", &lane, target.as_deref()).await.unwrap();
    }
    nothing_waits(&h).await;
    // Once this later event has arrived, the repeats have been handled.
    enqueue_counted(&h, [draft("later")], &["later".into()]).await;
    until(&h, "later", 1).await;
    carrying.stop().await;
    assert_eq!(h.counter("e00000").await, 1);
    assert_eq!(handled.load(Ordering::Relaxed), 2, "once for each event");
    assert_eq!(h.counter("other").await, 2, "and the other consumer was not called again");
}

async fn nothing_waits<H: Harness>(h: &H) {
    while !h.store().counts().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A redrive to one consumer does not reach the others again.
pub async fn a_redrive_reaches_one_consumer_only<H: Harness, C: Carrier>(h: H, carrier: C) {
    let fails = |_: &Received<Paid>| Err(Failure::reject("not today"));
    h.make_counter("other").await;
    let both = inbox(&h).consumer(Count::then(&h, fails)).consumer(Other(h.clone()));
    let mut carrying = Carrying::start(&h, &carrier, both).await;
    enqueue_counted(&h, drafts(1), &names(1)).await;
    assert_eq!(carrying.dead().await.2, "not today");
    until(&h, "other", 1).await;
    carrying.stop().await;

    let both = inbox(&h).consumer(Count::new(&h)).consumer(Other(h.clone()));
    let carrying = Carrying::start(&h, &carrier, both).await;
    let (lane, target) = carrier.way_to(LANE);
    h.store().redrive("e00000", &lane, target.as_deref()).await.unwrap();
    all_once(&h, &names(1)).await;
    nothing_waits(&h).await;
    carrying.stop().await;
    assert_eq!(h.counter("other").await, 1);
}

/// Enqueues a refund for each payment.
struct Refund<H: Harness>(Outbox<H::Store>);

impl<H: Harness> Consumer<H::Store> for Refund<H> {
    const NAME: &'static str = "refund";
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
        self.0.enqueue(tx, &Refunded { n: paid.n.clone() }).await?;
        Ok(())
    }
}

struct Mail(mpsc::UnboundedSender<(String, Option<String>, Option<String>, String)>);

impl OutsideConsumer for Mail {
    const NAME: &'static str = "mail";
    type Event = Refunded;

    async fn handle(&self, refunded: Received<Refunded>) -> Result<(), Failure> {
        let envelope = refunded.envelope();
        let parent = envelope.parent_event_id.as_ref().map(ToString::to_string);
        Ok(self.0.send((refunded.n.clone(), envelope.trace_id.clone(), parent, refunded.idempotency_key()))?)
    }
}

/// D.10: an event that a consumer enqueues has the same trace, and the consumed event as its parent.
pub async fn what_a_consumer_enqueues_is_a_child<H: Harness, C: Carrier>(h: H, carrier: C) {
    let (sender, mut mails) = mpsc::unbounded_channel();
    let inbox = inbox(&h).consumer(Refund::<H>(Outbox::new(h.store().clone()))).outside(Mail(sender));
    let carrying = Carrying::start(&h, &carrier, inbox).await;
    enqueue(&h, drafts(1)).await;
    let (n, trace, parent, key) = tokio::time::timeout(PATIENCE, mails.recv()).await.unwrap().unwrap();
    let first = find(&h, "e00000").await.envelope;
    assert_eq!((n.as_str(), parent.as_deref()), ("e00000", Some("e00000")));
    assert!(trace.is_some());
    assert_eq!(trace, first.trace_id);
    assert!(key.starts_with("mail:"), "{key}");
    carrying.stop().await;
}

struct Many<H>(H);

impl<H: Harness> BatchConsumer<H::Store> for Many<H> {
    const NAME: &'static str = LANE;
    const SIZE: usize = 20;
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, events: Vec<Received<Paid>>) -> Result<(), Failure> {
        for paid in events {
            self.0.add(tx, &paid.n).await?;
            if paid.n == "e00007" {
                return Err(Failure::reject("not this one"));
            }
        }
        Ok(())
    }
}

/// Many events in one transaction. A rejected event does not affect the others.
pub async fn a_batch_has_its_effects_once<H: Harness, C: Carrier>(h: H, carrier: C) {
    let names = names(60);
    enqueue_counted(&h, drafts(60), &names).await;
    let mut carrying = Carrying::start(&h, &carrier, inbox(&h).batch(Many(h.clone()))).await;
    assert_eq!(carrying.dead().await.0, "e00007");
    for name in names.iter().filter(|name| *name != "e00007") {
        until(&h, name, 1).await;
    }
    carrying.stop().await;
    assert_eq!(h.counter("e00007").await, 0);
}

/// F17: while nothing fails, events of one key are consumed in order, concurrently with other keys.
pub async fn events_of_a_key_stay_in_order<H: Harness, C: Carrier>(h: H, carrier: C) {
    let keys = ["a", "b", "c", "d"];
    let drafts: Vec<_> = (1..=25).flat_map(|n| keys.map(|key| draft(format!("{key}{n}")).key(key))).collect();
    let names: Vec<_> = keys.iter().flat_map(|key| (1..=25).map(move |n| format!("{key}{n}"))).collect();
    let carrying = Carrying::start(&h, &carrier, inbox(&h).consumer(Count::new(&h))).await;
    enqueue_counted(&h, drafts, &names).await;
    all_once(&h, &names).await;
    carrying.stop().await;
    let log = h.written_down().await;
    for key in keys {
        let of_key: Vec<_> = log.iter().filter(|(of, _)| of == key).map(|(_, n)| *n).collect();
        assert_eq!(of_key, (1..=25).collect::<Vec<_>>(), "{key}");
    }
}

/// Sends what it receives to the case.
struct Raw(mpsc::UnboundedSender<(String, String, Vec<u8>)>);

impl OutsideConsumer for Raw {
    const NAME: &'static str = "archive";
    type Event = RawEvent;

    async fn handle(&self, event: Received<RawEvent>) -> Result<(), Failure> {
        Ok(self.0.send((event.topic.clone(), event.payload_type.to_string(), event.bytes()?.into_owned()))?)
    }
}

/// Everything that can be enqueued can be consumed: bytes, other content types, every topic.
pub async fn raw_events_arrive_as_they_were_enqueued<H: Harness, C: Carrier>(h: H, carrier: C) {
    let (received, mut events) = mpsc::unbounded_channel();
    let carrying = Carrying::start(&h, &carrier, inbox(&h).outside(Raw(received))).await;
    let photo = [0, 159, 146, 150, 255];
    let written = [
        Draft::bytes("photo.stored", "image/jpeg", photo),
        Draft::text("note.a.b", "application/xml", "<note/>"),
        Draft::json("order.paid", &serde_json::json!({ "n": 1 })).unwrap(),
    ];
    enqueue(&h, written).await;
    let mut arrived = Vec::new();
    while arrived.len() < 3 {
        arrived.push(tokio::time::timeout(PATIENCE, events.recv()).await.expect("an event").unwrap());
    }
    carrying.stop().await;
    arrived.sort();
    let expected = [
        ("note.a.b", "application/xml", b"<note/>".to_vec()),
        ("order.paid", "application/json", br#"{"n":1}"#.to_vec()),
        ("photo.stored", "image/jpeg", photo.to_vec()),
    ];
    assert_eq!(arrived, expected.map(|(topic, kind, bytes)| (topic.to_owned(), kind.to_owned(), bytes)));
}

/// Counts raw events of two topics, many in one transaction.
struct RawInBatches<H>(H);

impl<H: Harness> BatchConsumer<H::Store> for RawInBatches<H> {
    const NAME: &'static str = LANE;
    const TOPICS: &'static [&'static str] = &["invoice.printed", "label.printed"];
    type Event = RawEvent;

    async fn handle(&self, tx: &mut Conn<H>, events: Vec<Received<RawEvent>>) -> Result<(), Failure> {
        for event in &events {
            self.0.add(tx, &event.topic).await?;
        }
        Ok(())
    }
}

/// A consumer may name several topics; it gets no others.
pub async fn one_consumer_takes_raw_events_of_several_topics<H: Harness, C: Carrier>(h: H, carrier: C) {
    for topic in ["invoice.printed", "label.printed", "photo.stored"] {
        h.make_counter(topic).await;
    }
    let carrying = Carrying::start(&h, &carrier, inbox(&h).batch(RawInBatches(h.clone()))).await;
    enqueue(
        &h,
        ["photo.stored", "label.printed", "invoice.printed"].map(|topic| Draft::bytes(topic, "image/png", [7])),
    )
    .await;
    until(&h, "invoice.printed", 1).await;
    until(&h, "label.printed", 1).await;
    carrying.stop().await;
    assert_eq!(h.counter("photo.stored").await, 0);
}
