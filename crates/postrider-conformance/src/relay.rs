//! The relay and its consumers: every committed event has its effect once and in order, despite failures.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postrider::alert::{Alarm, Alert};
use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::store::{Claim, DeadHead, Receipt};
use postrider::transport::{Lane, Outcome, Parcel};
use postrider::{
    BatchConsumer, Consumer, Draft, Error, Event, Failure, Inbox, LaneOptions, Outbox, OutsideConsumer, RawEvent,
    Received, Relay, RelayOptions, Retention, RetryPolicy, Subscription, Transport, Via,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::steps::*;
use crate::{Conn, Harness, hostile};

/// The event that [`draft`] writes.
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

/// Increments the counter of the event, logs the event under its key, and calls `then`.
struct Count<H> {
    h: H,
    /// Called before the effect commits.
    then: Then,
}

type Then = Arc<dyn Fn(&Received<Paid>) -> Result<(), Failure> + Send + Sync>;

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
            self.h.write_down(tx, key, number(&paid.n)).await;
        }
        (self.then)(&paid)
    }
}

/// The number in an event's name.
fn number(name: &str) -> i64 {
    name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

/// Enqueues events, each with its own counter.
async fn enqueue_counted<H: Harness>(h: &H, names: impl IntoIterator<Item = String>) {
    let names: Vec<_> = names.into_iter().collect();
    for name in &names {
        h.make_counter(name).await;
    }
    enqueue(h, names.into_iter().map(draft)).await;
}

/// The counters, in the order of the names.
async fn counted<H: Harness>(h: &H, names: impl IntoIterator<Item = String>) -> Vec<i64> {
    let mut counts = Vec::new();
    for name in names {
        counts.push(h.counter(&name).await);
    }
    counts
}

fn names(n: usize) -> impl Iterator<Item = String> + Clone {
    (0..n).map(|n| format!("e{n:05}"))
}

fn inbox<H: Harness>(h: &H) -> Inbox<H::Store> {
    Inbox::new(h.store().clone())
}

fn relay<H: Harness>(h: &H, inbox: Inbox<H::Store>) -> Relay {
    Relay::new(h.store().clone(), inbox)
}

async fn drain<H: Harness>(h: &H, inbox: Inbox<H::Store>) {
    relay(h, inbox).drain().await.unwrap();
}

/// A relay that runs concurrently with the case until it is stopped.
struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<postrider::Result<()>>,
}

impl Running {
    fn start(relay: Relay) -> Self {
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(relay.run(async { stopped.await.unwrap_or_default() }));
        Self { stop, ended }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

/// Polls once an hour, so that only a wake-up can deliver an event during a case.
fn never_polls() -> RelayOptions {
    RelayOptions { poll: HOUR, ..RelayOptions::default() }
}

/// A.4, A.6: each committed event is consumed once.
pub async fn every_event_has_its_effect_once<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(250)).await;
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    assert_eq!(counted(&h, names(250)).await, [1; 250]);
    assert!(h.store().counts().await.unwrap().is_empty(), "nothing waits");
    let attempts = find(&h, "e00007").await.consumptions;
    assert!(matches!(&attempts[..], [one] if one.success == Some(true) && one.attempt == 1), "{attempts:?}");
    // A second run changes nothing.
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    assert_eq!(counted(&h, names(250)).await, [1; 250]);
}

/// B.2: two relays share the work without repeating an effect.
pub async fn two_relays_share_the_work<H: Harness>(h: H) {
    /// Ends no call before each of the relays has one.
    struct Meets {
        relay: usize,
        called: watch::Sender<[bool; 2]>,
        handled: mpsc::UnboundedSender<(String, usize)>,
    }
    impl OutsideConsumer for Meets {
        const NAME: &'static str = LANE;
        type Event = Paid;

        async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
            self.called.send_modify(|called| called[self.relay] = true);
            self.called.subscribe().wait_for(|called| *called == [true; 2]).await?;
            Ok(self.handled.send((paid.n.clone(), self.relay))?)
        }
    }
    subscribe_lane(&h).await;
    enqueue(&h, drafts(400)).await;
    let (called, (handled, mut all)) = (watch::Sender::new([false; 2]), mpsc::unbounded_channel());
    let drains = (0..2).map(|relay| {
        let (h, called, handled) = (h.clone(), called.clone(), handled.clone());
        async move { drain(&h, inbox(&h).outside(Meets { relay, called, handled })).await }
    });
    together(drains).await;
    drop(handled);
    let mut shares = [BTreeSet::new(), BTreeSet::new()];
    while let Some((name, relay)) = all.recv().await {
        assert!(shares[relay].insert(name), "once");
    }
    assert!(shares.iter().all(|share| !share.is_empty()) && shares[0].is_disjoint(&shares[1]), "{shares:?}");
    assert_eq!(shares[0].len() + shares[1].len(), 400);
}

struct Fails;

impl OutsideConsumer for Fails {
    const NAME: &'static str = "fails";
    type Event = Paid;

    async fn handle(&self, _: Received<Paid>) -> Result<(), Failure> {
        Err(Failure::retry("the mail server is down").code("mail"))
    }
}

/// Of the same lane, another topic.
struct FailsToo;

impl OutsideConsumer for FailsToo {
    const NAME: &'static str = Fails::NAME;
    type Event = Refunded;

    async fn handle(&self, _: Received<Refunded>) -> Result<(), Failure> {
        Err(Failure::retry("the mail server is down").code("mail"))
    }
}

struct Other<H>(H);

impl<H: Harness> Consumer<H::Store> for Other<H> {
    const NAME: &'static str = "other";
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, _: Received<Paid>) -> Result<(), Failure> {
        Ok(self.0.add(tx, "other").await?)
    }
}

/// A.6: a failing consumer does not make another one repeat or wait.
pub async fn a_failing_consumer_delays_no_other<H: Harness>(h: H) {
    for lane in [LANE, "other", "fails"] {
        subscribe(&h, TOPIC, lane, Via::Local).await;
    }
    h.make_counter("other").await;
    enqueue_counted(&h, names(30)).await;
    for _ in 0..3 {
        drain(&h, inbox(&h).consumer(Count::new(&h)).outside(Fails).consumer(Other(h.clone()))).await;
        assert_eq!(counted(&h, names(30)).await, [1; 30]);
        assert_eq!(h.counter("other").await, 30);
        age(&h, HOUR).await;
    }
    let counts = h.store().counts().await.unwrap();
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["fails"]);
    assert_eq!(counts["fails"].failed, 30);
    let failures = find(&h, "e00000").await.consumptions;
    let failures: Vec<_> = failures.iter().filter(|attempt| attempt.consumer == "fails").collect();
    assert_eq!(failures.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(failures[0].error.as_deref(), Some("the mail server is down"));
    assert_eq!(failures[0].code.as_deref(), Some("mail"));
}

/// A.5: the event fails twice and then succeeds. The effects of the failed tries are rolled back.
pub async fn a_failure_is_tried_again_when_it_is_due<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(1)).await;
    let tries = Arc::new(AtomicU32::new(0));
    for due in [true, false, true, true] {
        let tried = Arc::clone(&tries);
        let twice = move |_: &Received<Paid>| match tried.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(Failure::retry("not yet")),
            _ => Ok(()),
        };
        if due {
            age(&h, MINUTE).await;
        }
        drain(&h, inbox(&h).consumer(Count::then(&h, twice))).await;
    }
    assert_eq!(tries.load(Ordering::Relaxed), 3, "and not while it was waiting");
    assert_eq!(h.counter("e00000").await, 1);
    let attempts = find(&h, "e00000").await.consumptions;
    let attempts: Vec<_> = attempts.iter().map(|one| (one.attempt, one.success, one.will_retry)).collect();
    assert_eq!(attempts, [(1, Some(false), true), (2, Some(false), true), (3, Some(true), false)]);
}

/// Collects the alarms.
#[derive(Clone, Default)]
struct Alarms(Arc<Mutex<Vec<Alarm>>>, Arc<Notify>);

#[async_trait]
impl Alert for Alarms {
    async fn alert(&self, alarm: &Alarm) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.lock().unwrap().push(alarm.clone());
        self.1.notify_one();
        Ok(())
    }
}

/// A.5: ten attempts in all, then DEAD and an alarm.
pub async fn the_tenth_failure_is_the_last<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "fails", Via::Local).await;
    enqueue_one(&h, draft("e")).await;
    let alarms = Alarms::default();
    for attempt in 1..=11 {
        relay(&h, inbox(&h).outside(Fails)).also_alert(alarms.clone()).drain().await.unwrap();
        let found = find(&h, "e").await;
        let expected = if attempt < 10 { DeliveryStatus::Failed } else { DeliveryStatus::Dead };
        assert_eq!(found.deliveries[0].status, expected, "after attempt {attempt}");
        assert_eq!(found.deliveries[0].attempts, attempt.min(10));
        age(&h, 2 * HOUR).await;
    }
    let alarms = alarms.0.lock().unwrap().clone();
    let dead = Alarm::Dead {
        event_id: "e".into(),
        topic: TOPIC.into(),
        trace_id: find(&h, "e").await.envelope.trace_id,
        request_id: None,
        key: None,
        lane: "fails".into(),
        attempts: 10,
        error: "the mail server is down".into(),
        code: Some("mail".into()),
        held: Some(0),
    };
    assert_eq!(alarms, [dead]);
    assert_eq!(find(&h, "e").await.consumptions.len(), 10);
}

/// An error code can have its own retry policy.
pub async fn a_policy_may_depend_on_the_code<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "fails", Via::Local).await;
    enqueue_one(&h, draft("e")).await;
    let twice = RetryPolicy { max_attempts: 2, ..RetryPolicy::default() };
    let options = LaneOptions { retry_by_code: [("mail".to_owned(), twice)].into(), ..LaneOptions::default() };
    for expected in [DeliveryStatus::Failed, DeliveryStatus::Dead] {
        drain(&h, inbox(&h).outside_with(Fails, options.clone())).await;
        assert_eq!(find(&h, "e").await.deliveries[0].status, expected);
        age(&h, HOUR).await;
    }
}

/// F03, F09: an event whose worker dies in every attempt becomes DEAD too.
pub async fn what_kills_its_workers_ends_dead<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(1)).await;
    for _ in 0..10 {
        assert_eq!(claim(&h, 1).await.deliveries.len(), 1);
        age(&h, 2 * LEASE).await;
    }
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    assert_eq!(h.counter("e00000").await, 0, "it was not tried once more");
    let found = find(&h, "e00000").await;
    assert_eq!((found.deliveries[0].status, found.deliveries[0].attempts), (DeliveryStatus::Dead, 10));
    let error = found.deliveries[0].last_error.clone().unwrap();
    assert!(error.starts_with("given up after 10 attempts: the lease of the last one ran out"), "{error}");
    assert!(error.contains("may have been delivered"), "{error}");
    let codes: Vec<_> = found.consumptions.iter().map(|one| one.code.as_deref().unwrap_or_default()).collect();
    assert_eq!(codes, [&["leaseRanOut"; 9][..], &["exhausted"]].concat(), "each of the ten attempts is shown");
}

/// D.8: attempts that a dead worker used up are in the history, before those that failed, also after a redrive.
pub async fn attempts_of_dead_workers_are_in_the_history<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(1)).await;
    let fails = || {
        let retry = RetryPolicy { base: Duration::from_millis(1), max_attempts: 4, ..RetryPolicy::default() };
        let failing = Count::then(&h, |_| Err(Failure::retry("no").code("no")));
        inbox(&h).consumer_with(failing, LaneOptions { retry, ..LaneOptions::default() })
    };
    let codes = async || {
        let consumptions = find(&h, "e00000").await.consumptions;
        assert!(consumptions.iter().zip(1..).all(|(one, number)| one.attempt == number), "numbered without a gap");
        consumptions.into_iter().map(|one| one.code.unwrap_or_default()).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(claim(&h, 1).await.deliveries.len(), 1);
        age(&h, 2 * LEASE).await;
    }
    while status(&h, "e00000").await != DeliveryStatus::Dead {
        age(&h, MINUTE).await;
        drain(&h, fails()).await;
    }
    let mut expected = vec!["leaseRanOut", "leaseRanOut", "no", "no"];
    assert_eq!(codes().await, expected);
    assert_eq!(delivery(&h, "e00000").await.attempts, 4);
    h.store().redrive("e00000", LANE, None).await.unwrap();
    assert_eq!(claim(&h, 1).await.deliveries.len(), 1);
    age(&h, 2 * LEASE).await;
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    expected.extend(["leaseRanOut", ""]);
    assert_eq!(codes().await, expected, "an attempt that was lost, and a success");
}

/// F13: the last try times out and the delivery is DEAD, and its effect happens all the same. The reader is warned, and a redrive
/// is absorbed by the inbox on the other side.
pub async fn a_dead_letter_that_arrived_all_the_same_has_one_effect<H: Harness>(h: H) {
    /// Sends to a system that has an inbox of its own, and whose answer may never come.
    struct Sender<H> {
        h: H,
        answers: Arc<AtomicBool>,
    }
    impl<H: Harness> Sender<H> {
        async fn arrives(h: &H, event_id: &str) {
            let mut tx = h.store().begin().await.unwrap();
            let (consumer, topic) = ("elsewhere", TOPIC);
            let receipt = Receipt { consumer, event_id, topic, tenant_id: None, idempotency_key: None };
            if h.store().receive(&mut tx, &receipt).await.unwrap() {
                h.add(&mut tx, event_id).await.unwrap();
            }
            h.store().commit(tx).await.unwrap();
        }
    }
    impl<H: Harness> OutsideConsumer for Sender<H> {
        const NAME: &'static str = LANE;
        type Event = Paid;

        async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
            if !self.answers.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            Self::arrives(&self.h, &paid.n).await;
            Ok(())
        }
    }
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(1)).await;
    let answers = Arc::new(AtomicBool::new(false));
    let outside = || {
        let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
        let options = LaneOptions { retry, timeout: Duration::from_millis(50), ..LaneOptions::default() };
        inbox(&h).outside_with(Sender { h: h.clone(), answers: Arc::clone(&answers) }, options)
    };
    drain(&h, outside()).await;
    let dead = delivery(&h, "e00000").await;
    assert_eq!(dead.status, DeliveryStatus::Dead);
    let error = dead.last_error.unwrap();
    assert!(error.contains("may have been delivered"), "{error}");
    Sender::<H>::arrives(&h, "e00000").await;
    assert_eq!(h.counter("e00000").await, 1);

    answers.store(true, Ordering::Relaxed);
    h.store().redrive("e00000", LANE, None).await.unwrap();
    let unhurried = LaneOptions { timeout: HOUR, ..LaneOptions::default() };
    drain(&h, inbox(&h).outside_with(Sender { h: h.clone(), answers }, unhurried)).await;
    assert_eq!(h.counter("e00000").await, 1, "the other side knows the event");
    assert!(find(&h, "e00000").await.deliveries.is_empty());
}

/// F19: a payload that cannot be decoded is tried again, as a newer program may know it; what the consumer rejects is
/// given up; a panic fails its own event only.
pub async fn a_bad_event_harms_only_itself<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(10)).await;
    let broken = postrider::Draft::json(TOPIC, &serde_json::json!({ "secret": "hunter2" })).unwrap();
    enqueue(&h, [broken.event_id("undecodable")]).await;
    let picky = |paid: &Received<Paid>| match paid.n.as_str() {
        "e00003" => Err(Failure::reject("not mine").code("foreign")),
        "e00004" => panic!("out of cheese"),
        _ => Ok(()),
    };
    drain(&h, inbox(&h).consumer(Count::then(&h, picky))).await;
    assert_eq!(counted(&h, names(10)).await, [1, 1, 1, 0, 0, 1, 1, 1, 1, 1]);
    for (event, code, expected) in [
        ("undecodable", "undecodable", DeliveryStatus::Failed),
        ("e00003", "foreign", DeliveryStatus::Dead),
        ("e00004", "panic", DeliveryStatus::Failed),
    ] {
        let found = find(&h, event).await;
        assert_eq!(found.deliveries[0].status, expected, "{event}");
        assert_eq!(found.consumptions[0].code.as_deref(), Some(code), "{event}");
        let error = found.consumptions[0].error.clone().unwrap();
        assert!(!error.contains("hunter2"), "payloads are not repeated: {error}");
    }
}

/// F60: of events that plain SQL has written, those that strict readers of JSON refuse are buried alone, with the reason; the
/// others are delivered as they were written.
pub async fn an_unreadable_payload_is_buried_alone<H: Harness>(h: H) {
    struct Raw(Mutex<mpsc::UnboundedSender<(String, String)>>);
    impl OutsideConsumer for Raw {
        const NAME: &'static str = LANE;
        const TOPICS: &'static [&'static str] = &[TOPIC];
        type Event = RawEvent;

        async fn handle(&self, event: Received<RawEvent>) -> Result<(), Failure> {
            Ok(self.0.lock().unwrap().send((event.event_id.to_string(), event.payload.clone()))?)
        }
    }
    subscribe_lane(&h).await;
    let (bad, good) = (hostile::unreadable_payloads(), hostile::readable_payloads());
    let mut tx = h.store().begin().await.unwrap();
    for (name, payload) in bad.iter().chain(&good) {
        h.insert_plainly(&mut *tx, name, TOPIC, payload).await;
    }
    h.store().commit(tx).await.unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    drain(&h, inbox(&h).outside(Raw(Mutex::new(sender)))).await;
    let mut delivered = Vec::new();
    while let Ok(one) = received.try_recv() {
        delivered.push(one);
    }
    delivered.sort_unstable();
    assert_eq!(delivered, good);
    for (name, _) in bad {
        let found = find(&h, &name).await;
        assert_eq!(found.deliveries[0].status, DeliveryStatus::Dead, "{name}");
        let attempts: Vec<_> = found.consumptions.iter().map(|one| (one.code.as_deref(), one.will_retry)).collect();
        assert_eq!(attempts, [(Some("unreadable"), false)], "{name}: once, with the reason");
    }
}

/// A payload of an older version is upcast; one of a newer version waits for a newer program.
pub async fn a_payload_of_another_version_is_upcast_or_waits<H: Harness>(h: H) {
    /// The payload of [`Paid`] in an older and a newer version.
    #[derive(Serialize, Deserialize)]
    struct Versioned<const V: u32>(String);
    impl<const V: u32> Event for Versioned<V> {
        const TOPIC: &'static str = TOPIC;
        const VERSION: u32 = V;
        fn event_id(&self) -> Option<String> {
            Some(self.0.clone())
        }
        fn upcast(version: u32, payload: serde_json::Value) -> serde_json::Result<Self> {
            let name: String = serde_json::from_value(payload)?;
            Ok(Self(format!("{name}-of-{version}")))
        }
    }
    struct Names<H>(H);
    impl<H: Harness> Consumer<H::Store> for Names<H> {
        const NAME: &'static str = LANE;
        type Event = Versioned<2>;
        async fn handle(&self, tx: &mut Conn<H>, event: Received<Versioned<2>>) -> Result<(), Failure> {
            Ok(self.0.add(tx, &event.0).await?)
        }
    }
    subscribe_lane(&h).await;
    for name in ["old-of-1", "present"] {
        h.make_counter(name).await;
    }
    let drafts = [
        Draft::of(&Versioned::<1>("old".into())).unwrap(),
        Draft::of(&Versioned::<2>("present".into())).unwrap(),
        Draft::of(&Versioned::<3>("new".into())).unwrap().metadata_json(r#"{"from":"a test"}"#),
    ];
    enqueue(&h, drafts).await;
    drain(&h, inbox(&h).consumer(Names(h.clone()))).await;
    assert_eq!((h.counter("old-of-1").await, h.counter("present").await), (1, 1));
    let new = find(&h, "new").await;
    assert_eq!(new.envelope.metadata.as_deref(), Some(r#"{"payloadVersion":3,"from":"a test"}"#));
    assert_eq!(new.deliveries[0].status, DeliveryStatus::Failed);
    assert_eq!(new.consumptions[0].code.as_deref(), Some("undecodable"));
}

/// F55: a consumer that ignores a database error and returns success.
pub async fn a_consumer_that_swallows_a_database_error_is_tried_again<H: Harness>(h: H) {
    struct Careless<H>(H, AtomicBool);
    impl<H: Harness> Consumer<H::Store> for Careless<H> {
        const NAME: &'static str = LANE;
        type Event = Paid;

        async fn handle(&self, tx: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
            self.0.add(tx, &paid.n).await?;
            if !self.1.swap(true, Ordering::Relaxed) {
                self.0.swallow_a_database_error(tx).await;
            }
            Ok(())
        }
    }
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(1)).await;
    for _ in 0..2 {
        let careless = Careless(h.clone(), AtomicBool::new(false));
        drain(&h, inbox(&h).consumer(careless)).await;
        age(&h, HOUR).await;
    }
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    assert_eq!(h.counter("e00000").await, 1, "one effect, not half of one and not two");
    assert!(find(&h, "e00000").await.deliveries.is_empty());
}

/// A.7: a repeated delivery has no second effect.
pub async fn a_duplicate_is_settled_without_an_effect<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(1)).await;
    for _ in 0..3 {
        drain(&h, inbox(&h).consumer(Count::new(&h))).await;
        assert!(find(&h, "e00000").await.deliveries.is_empty());
        h.store().redrive("e00000", LANE, None).await.unwrap();
    }
    assert_eq!(h.counter("e00000").await, 1);
}

/// G.1, F17: events of a key are consumed in order despite failures, also across the topics of one consumer.
pub async fn events_of_a_key_are_consumed_in_order<H: Harness>(h: H) {
    struct Refunds<H>(H);
    impl<H: Harness> Consumer<H::Store> for Refunds<H> {
        const NAME: &'static str = LANE;
        type Event = Refunded;

        async fn handle(&self, tx: &mut Conn<H>, refunded: Received<Refunded>) -> Result<(), Failure> {
            let key = refunded.envelope().key.clone().unwrap();
            self.0.write_down(tx, &key, number(&refunded.n)).await;
            Ok(())
        }
    }
    subscribe_lane(&h).await;
    subscribe(&h, Refunded::TOPIC, LANE, Via::Local).await;
    let keys = ["a", "b", "c", "d"];
    for n in 1..=25 {
        for key in keys {
            let name = format!("{key}{n}");
            h.make_counter(&name).await;
            let topic = if n % 3 == 0 { Refunded::TOPIC } else { TOPIC };
            let draft = postrider::Draft::json(topic, &serde_json::json!({ "n": name })).unwrap();
            enqueue_one(&h, draft.event_id(&name).key(key)).await;
        }
    }
    let dice = Arc::new(Mutex::new(0_u32));
    for _ in 0..200 {
        let dice = Arc::clone(&dice);
        let unlucky = move |_: &Received<Paid>| {
            let mut thrown = dice.lock().unwrap();
            *thrown += 1;
            if thrown.is_multiple_of(7) { Err(Failure::retry("unlucky")) } else { Ok(()) }
        };
        drain(&h, inbox(&h).consumer(Count::then(&h, unlucky)).consumer(Refunds(h.clone()))).await;
        if h.store().counts().await.unwrap().is_empty() {
            break;
        }
        age(&h, HOUR).await;
    }
    for key in keys {
        let log = h.written_down().await;
        let order: Vec<_> = log.iter().filter(|(of, _)| of == key).map(|(_, n)| *n).collect();
        assert_eq!(order, (1..=25).collect::<Vec<_>>(), "key {key}");
    }
}

/// Rejects the first event of the key `a`, and reports the others.
struct RejectsFirst(mpsc::UnboundedSender<String>);

impl OutsideConsumer for RejectsFirst {
    const NAME: &'static str = "skipping";
    type Event = Paid;

    async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
        if paid.n == "a1" { Err(Failure::reject("never")) } else { Ok(self.0.send(paid.n.clone())?) }
    }
}

/// F18: the policy of each lane decides whether a DEAD event blocks the later ones of its key.
pub async fn a_dead_head_holds_or_is_skipped<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "skipping", Via::Local).await;
    for n in 1..=3 {
        h.make_counter(&format!("a{n}")).await;
    }
    enqueue(&h, keyed("a", 3)).await;
    let first_is_bad = |paid: &Received<Paid>| if paid.n == "a1" { Err(Failure::reject("never")) } else { Ok(()) };
    let skip = LaneOptions { dead_head: DeadHead::Skip, ..LaneOptions::default() };
    let (reports, mut reported) = mpsc::unbounded_channel();
    let both = inbox(&h).consumer(Count::then(&h, first_is_bad)).outside_with(RejectsFirst(reports), skip.clone());
    drain(&h, both).await;
    assert!(h.written_down().await.is_empty(), "held");
    assert_eq!((reported.recv().await, reported.recv().await), (Some("a2".into()), Some("a3".into())), "skipped");
    drain(&h, inbox(&h).consumer_with(Count::then(&h, first_is_bad), skip)).await;
    assert_eq!(h.written_down().await, [("a".to_owned(), 2), ("a".to_owned(), 3)]);
}

/// Handles many events in one transaction.
struct Batched<H> {
    h: H,
    sizes: mpsc::UnboundedSender<usize>,
}

impl<H: Harness> BatchConsumer<H::Store> for Batched<H> {
    const NAME: &'static str = LANE;
    const SIZE: usize = 20;
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, events: Vec<Received<Paid>>) -> Result<(), Failure> {
        self.sizes.send(events.len())?;
        for paid in &events {
            self.h.add(tx, &paid.n).await?;
            if let Some(key) = &paid.envelope().key {
                self.h.write_down(tx, key, number(&paid.n)).await;
            }
            if paid.n.ends_with("bad1") {
                return Err(Failure::retry("bad"));
            }
        }
        Ok(())
    }
}

/// Batches have the configured size, and each effect happens once.
pub async fn a_batch_is_one_transaction<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(100)).await;
    let (sizes, mut received) = mpsc::unbounded_channel();
    drain(&h, inbox(&h).batch(Batched { h: h.clone(), sizes })).await;
    assert_eq!(counted(&h, names(100)).await, [1; 100]);
    // The first batch has one event, and the size grows from there.
    let mut batches = Vec::new();
    while let Some(size) = received.recv().await {
        batches.push(size);
    }
    assert_eq!(batches.iter().sum::<usize>(), 100);
    assert_eq!(batches.iter().max(), Some(&20), "{batches:?}");
    // Repeated deliveries have no second effect.
    for name in names(100) {
        h.store().redrive(&name, LANE, None).await.unwrap();
    }
    let (sizes, mut received) = mpsc::unbounded_channel();
    drain(&h, inbox(&h).batch(Batched { h: h.clone(), sizes })).await;
    assert_eq!(counted(&h, names(100)).await, [1; 100]);
    assert_eq!(received.recv().await, None, "the consumer was not called");
    assert!(h.store().counts().await.unwrap().is_empty());
}

/// The same for a lane with several topics and for many events of one key.
pub async fn a_batch_is_of_its_topic_and_no_larger_than_asked_for<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, Refunded::TOPIC, LANE, Via::Local).await;
    for n in 1..=100 {
        h.make_counter(&format!("k{n}")).await;
    }
    enqueue(&h, keyed("k", 100)).await;
    for name in names(30) {
        h.make_counter(&name).await;
        let refunded = Draft::of(&Refunded { n: name.clone() }).unwrap().event_id(format!("refund of {name}"));
        enqueue(&h, [draft(name), refunded]).await;
    }
    let (sizes, mut received) = mpsc::unbounded_channel();
    drain(&h, inbox(&h).batch(Batched { h: h.clone(), sizes })).await;
    let mut batches = Vec::new();
    while let Some(size) = received.recv().await {
        batches.push(size);
    }
    assert_eq!(batches.iter().max(), Some(&20), "{batches:?}");
    assert_eq!(h.written_down().await.iter().map(|(_, n)| *n).collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
    assert_eq!(counted(&h, names(30)).await, [1; 30]);
    for name in names(30) {
        let attempts = find(&h, &format!("refund of {name}")).await.consumptions;
        assert_eq!(attempts[0].code.as_deref(), Some("noConsumer"), "{name}");
    }
}

/// A failed event is retried alone. The others of its batch have their effect once, and those of its key wait.
pub async fn a_failed_event_does_not_affect_its_batch<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let all: Vec<_> = names(10).chain(["bad1".to_owned(), "bad2".to_owned(), "bad3".to_owned()]).collect();
    for name in &all {
        h.make_counter(name).await;
    }
    let of_one_key = |name: &String| if name.starts_with("bad") { draft(name).key("k") } else { draft(name) };
    enqueue(&h, all.iter().map(of_one_key)).await;
    let (sizes, _told) = mpsc::unbounded_channel();
    drain(&h, inbox(&h).batch(Batched { h: h.clone(), sizes: sizes.clone() })).await;
    assert_eq!(counted(&h, all.clone()).await, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]);
    let waiting = find(&h, "bad2").await.deliveries;
    assert_eq!((waiting[0].status, waiting[0].attempts), (DeliveryStatus::New, 0), "it was not its turn");
    age(&h, HOUR).await;
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    assert_eq!(counted(&h, all).await, [1; 13]);
    assert_eq!(h.written_down().await.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 2, 3]);
}

/// A drain also waits for events that its consumers enqueue. The last event of one lane may enqueue one for another
/// lane while the relay checks whether all lanes are empty.
pub async fn a_drain_ends_with_the_last_of_all_lanes<H: Harness>(h: H) {
    struct Pays<H: Harness>(Outbox<H::Store>);
    impl<H: Harness> Consumer<H::Store> for Pays<H> {
        const NAME: &'static str = LANE;
        type Event = Paid;

        async fn handle(&self, tx: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
            self.0.enqueue(tx, &Refunded { n: paid.n.clone() }).await?;
            Ok(())
        }
    }
    struct Refunds;
    impl OutsideConsumer for Refunds {
        const NAME: &'static str = "refunds";
        type Event = Refunded;

        async fn handle(&self, _: Received<Refunded>) -> Result<(), Failure> {
            Ok(())
        }
    }
    subscribe_lane(&h).await;
    subscribe(&h, Refunded::TOPIC, "refunds", Via::Local).await;
    for n in 0..50 {
        let outbox = Outbox::new(h.store().clone());
        enqueue(&h, [draft(format!("e{n}"))]).await;
        drain(&h, inbox(&h).consumer(Pays::<H>(outbox)).outside(Refunds)).await;
        let left = h.store().counts().await.unwrap();
        assert!(left.is_empty(), "after drain {n}: {left:?}");
    }
}

/// D.10: an event enqueued while another is consumed gets that event as its parent, and its trace.
pub async fn a_child_inherits_trace_and_parent<H: Harness>(h: H) {
    struct Parent<H: Harness>(H, Outbox<H::Store>);
    impl<H: Harness> Consumer<H::Store> for Parent<H> {
        const NAME: &'static str = LANE;
        type Event = Paid;

        async fn handle(&self, tx: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
            let header = paid.traceparent().unwrap();
            assert!(header.contains(paid.envelope().trace_id.as_deref().unwrap()), "{header}");
            let child = format!("{}:child", paid.n);
            self.1.enqueue(tx, &Refunded { n: child }).await?;
            self.1
                .enqueue(tx, postrider::Draft::of(&Refunded { n: "x".into() })?.event_id("fixed").parent("adopted"))
                .await?;
            match paid.n.as_str() {
                "fails" => Err(Failure::reject("and its children never were")),
                _ => Ok(()),
            }
        }
    }
    let (seen, mut children) = mpsc::unbounded_channel();
    struct Child(mpsc::UnboundedSender<postrider::Envelope>);
    impl OutsideConsumer for Child {
        const NAME: &'static str = "child";
        type Event = Refunded;

        async fn handle(&self, refunded: Received<Refunded>) -> Result<(), Failure> {
            assert_eq!(refunded.idempotency_key(), format!("child:{}", refunded.envelope().event_id));
            Ok(self.0.send(refunded.envelope().clone())?)
        }
    }
    subscribe_lane(&h).await;
    subscribe(&h, Refunded::TOPIC, "child", Via::Local).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    enqueue(&h, [draft("e").trace(trace, None)]).await;
    let outbox = Outbox::new(h.store().clone());
    drain(&h, inbox(&h).consumer(Parent(h.clone(), outbox.clone())).outside(Child(seen))).await;
    let first = children.recv().await.unwrap();
    let second = children.recv().await.unwrap();
    let (child, adopted) = if first.event_id.as_str() == "fixed" { (second, first) } else { (first, second) };
    assert_eq!(child.parent_event_id.unwrap().as_str(), "e");
    assert_eq!(child.trace_id.as_deref(), Some(trace));
    assert_ne!(child.span_id, None);
    assert_eq!(adopted.parent_event_id.unwrap().as_str(), "adopted", "what the author says counts");
    assert_eq!(adopted.trace_id.as_deref(), Some(trace));

    enqueue(&h, [draft("fails")]).await;
    let (seen, mut children) = mpsc::unbounded_channel();
    drain(&h, inbox(&h).consumer(Parent(h.clone(), outbox)).outside(Child(seen))).await;
    assert!(children.recv().await.is_none(), "rolled back with its parent's effect");
}

/// Sends each event to the case.
struct Sends(mpsc::UnboundedSender<String>);

impl OutsideConsumer for Sends {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
        Ok(self.0.send(paid.n.clone())?)
    }
}

/// A.4: a commit wakes the relay, however long the transaction was open. Polling is off.
pub async fn a_commit_wakes_the_relay<H: Harness>(h: H) {
    let (sender, mut received) = mpsc::unbounded_channel();
    let running = Running::start(relay(&h, inbox(&h).outside(Sends(sender))).options(never_polls()));
    enqueue_after_registration(&h, "first", &mut received).await;
    enqueue_one(&h, draft("second")).await;
    assert_eq!(received.recv().await.as_deref(), Some("second"));
    let outbox = Outbox::new(h.store().clone());
    let mut tx = h.store().begin().await.unwrap();
    outbox.enqueue(&mut tx, draft("third")).await.unwrap();
    // Long enough for a wake-up on enqueue, which would find nothing.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(received.try_recv().is_err());
    h.store().commit(tx).await.unwrap();
    assert_eq!(received.recv().await.as_deref(), Some("third"));
    running.stop().await;
}

/// Waits until the relay has registered its consumers: an event enqueued earlier would be found by the router only.
async fn enqueue_after_registration<H: Harness>(h: &H, name: &str, received: &mut mpsc::UnboundedReceiver<String>) {
    while h.store().subscriptions(Some(TOPIC)).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    enqueue_one(h, draft(name)).await;
    assert_eq!(received.recv().await.as_deref(), Some(name));
}

/// G.2: a delayed event is delivered when it is due, without polling.
pub async fn a_due_time_wakes_the_relay<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let running = Running::start(relay(&h, inbox(&h).outside(Sends(sender))).options(never_polls()));
    enqueue(&h, [draft("later").delay(Duration::from_millis(300))]).await;
    enqueue(&h, [draft("now")]).await;
    assert_eq!(received.recv().await.as_deref(), Some("now"));
    assert_eq!(received.recv().await.as_deref(), Some("later"));
    running.stop().await;
}

/// A redrive wakes the relays of its process, which otherwise look seldom.
pub async fn a_redrive_wakes_the_relay<H: Harness>(h: H) {
    struct Later(AtomicBool, mpsc::UnboundedSender<bool>);
    impl OutsideConsumer for Later {
        const NAME: &'static str = LANE;
        type Event = Paid;

        async fn handle(&self, _: Received<Paid>) -> Result<(), Failure> {
            let is_repaired = self.0.swap(true, Ordering::Relaxed);
            self.1.send(is_repaired)?;
            if is_repaired { Ok(()) } else { Err(Failure::reject("broken")) }
        }
    }
    let (sender, mut received) = mpsc::unbounded_channel();
    let inbox = inbox(&h).outside(Later(AtomicBool::new(false), sender));
    let running = Running::start(relay(&h, inbox).options(never_polls()));
    enqueue(&h, [draft("e")]).await;
    assert_eq!(received.recv().await, Some(false));
    while delivery(&h, "e").await.status != DeliveryStatus::Dead {
        tokio::task::yield_now().await;
    }
    h.store().redrive_event("e", None, &Default::default()).await.unwrap();
    assert_eq!(received.recv().await, Some(true));
    running.stop().await;
}

/// A.19: a running relay delivers a plain `INSERT` and an event that had no subscriber before.
pub async fn plain_inserts_and_unheard_events_reach_a_running_relay<H: Harness>(h: H) {
    enqueue_one(&h, draft("unheard")).await;
    let (sender, mut received) = mpsc::unbounded_channel();
    struct Lenient(mpsc::UnboundedSender<String>);
    #[derive(Serialize, Deserialize)]
    struct Any {}
    impl Event for Any {
        const TOPIC: &'static str = TOPIC;
    }
    impl OutsideConsumer for Lenient {
        const NAME: &'static str = LANE;
        type Event = Any;

        async fn handle(&self, any: Received<Any>) -> Result<(), Failure> {
            Ok(self.0.send(any.envelope().event_id.to_string())?)
        }
    }
    let running = Running::start(relay(&h, inbox(&h).outside(Lenient(sender))));
    assert_eq!(received.recv().await.as_deref(), Some("unheard"));
    insert_plainly(&h, "by-hand").await;
    assert_eq!(received.recv().await.as_deref(), Some("by-hand"));
    running.stop().await;
}

/// D.2: an event that is written before the relay starts reaches every registered consumer.
pub async fn registered_consumers_get_what_is_written_before_the_relay_starts<H: Harness>(h: H) {
    h.make_counter("other").await;
    let inbox = inbox(&h).consumer(Count::new(&h)).consumer(Other(h.clone()));
    inbox.register().await.unwrap();
    enqueue_counted(&h, names(1)).await;
    let lanes: Vec<_> = find(&h, "e00000").await.deliveries.into_iter().map(|delivery| delivery.lane).collect();
    assert_eq!(lanes, ["other", LANE]);
    drain(&h, inbox).await;
    assert_eq!((h.counter("e00000").await, h.counter("other").await), (1, 1));
}

/// D.2: a subscription that an operator disabled stays disabled after the consumer restarts.
pub async fn an_operators_choice_survives_a_restart<H: Harness>(h: H) {
    let mut disabled = Subscription::new(TOPIC, LANE, Via::Local);
    disabled.enabled = false;
    h.store().set_subscription(&disabled).await.unwrap();
    enqueue_counted(&h, names(1)).await;
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    assert_eq!(h.counter("e00000").await, 0);
    assert!(!h.store().subscriptions(Some(TOPIC)).await.unwrap()[0].subscription.enabled);
}

/// An operator can pause and resume a lane while the relay runs.
pub async fn a_paused_lane_is_left_alone<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.store().set_paused(LANE, true).await.unwrap();
    enqueue_counted(&h, names(5)).await;
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    assert_eq!(counted(&h, names(5)).await, [0; 5]);
    let (sender, mut received) = mpsc::unbounded_channel();
    let running = Running::start(relay(&h, inbox(&h).outside(Sends(sender))));
    h.store().set_paused(LANE, false).await.unwrap();
    assert!(received.recv().await.is_some());
    running.stop().await;
}

/// [`Count`] under another name.
struct Renamed<H>(Count<H>);

impl<H: Harness> Consumer<H::Store> for Renamed<H> {
    const NAME: &'static str = "renamed";
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
        self.0.handle(tx, paid).await
    }
}

/// The old program works, the consumer is renamed, and the new program starts beside it: each effect happens once, and keys
/// stay in order.
pub async fn a_consumer_is_renamed_while_it_runs<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let keys = ["a", "b", "c", "d", "e"];
    let names: Vec<_> = (1..=40).flat_map(|n| keys.map(|key| (key, format!("{key}{n}")))).collect();
    for (_, name) in &names {
        h.make_counter(name).await;
    }
    enqueue(&h, names.iter().map(|(key, name)| draft(name).key(*key))).await;
    let (tried, mut tries) = mpsc::unbounded_channel();
    let is_renamed = Arc::new(AtomicBool::new(false));
    let seen = AtomicU32::new(0);
    let some = {
        let is_renamed = Arc::clone(&is_renamed);
        move |_: &Received<Paid>| {
            let _ = tried.send(());
            // Some are left for the new name, however slow the rename is.
            if seen.fetch_add(1, Ordering::Relaxed) >= 50 && !is_renamed.load(Ordering::Relaxed) {
                return Err(Failure::retry("not before the rename"));
            }
            Ok(())
        }
    };
    let old = Running::start(relay(&h, inbox(&h).consumer(Count::then(&h, some))));
    for _ in 0..10 {
        tries.recv().await.unwrap();
    }
    let moved = h.store().rename_consumer(LANE, Renamed::<H>::NAME).await.unwrap();
    assert!(moved.deliveries > 0 && moved.received > 0, "{moved:?}");
    is_renamed.store(true, Ordering::Relaxed);
    let new = Running::start(relay(&h, inbox(&h).consumer(Renamed(Count::new(&h)))));
    while !h.store().counts().await.unwrap().is_empty() {
        // The leases of the old program end.
        age(&h, MINUTE).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    old.stop().await;
    new.stop().await;
    let by = find(&h, "e40").await.consumptions;
    assert!(by.iter().all(|one| one.consumer == Renamed::<H>::NAME), "{by:?}");
    assert_eq!(counted(&h, names.iter().map(|(_, name)| name.clone())).await, [1; 200]);
    let log = h.written_down().await;
    for key in keys {
        let order: Vec<_> = log.iter().filter(|(of, _)| of == key).map(|(_, n)| *n).collect();
        assert_eq!(order, (1..=40).collect::<Vec<_>>(), "{key}");
    }
}

/// D.9: an expired event is not delivered and does not block its key.
pub async fn an_expired_event_is_removed_without_a_try<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("a1").await;
    h.make_counter("a2").await;
    enqueue(&h, [draft("a1").key("a").expire_after(MINUTE), draft("a2").key("a")]).await;
    age(&h, HOUR).await;
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    assert_eq!((h.counter("a1").await, h.counter("a2").await), (0, 1));
    let found = find(&h, "a1").await;
    assert!(found.deliveries.is_empty() && found.consumptions.is_empty());
}

/// B.4: a relay can serve a subset of lanes and shards.
pub async fn a_relay_serves_only_its_lanes_and_shards<H: Harness>(h: H) {
    for lane in [LANE, "other"] {
        subscribe(&h, TOPIC, lane, Via::Local).await;
    }
    h.make_counter("other").await;
    enqueue_counted(&h, names(64)).await;
    let both = || inbox(&h).consumer(Count::new(&h)).consumer(Other(h.clone()));
    let only = RelayOptions { lanes: Some(BTreeSet::from(["other".to_owned()])), ..RelayOptions::default() };
    relay(&h, both()).options(only).drain().await.unwrap();
    assert_eq!(h.counter("other").await, 64);
    assert_eq!(counted(&h, names(64)).await, [0; 64]);
    let half = RelayOptions { shards: "0-31".parse().unwrap(), ..RelayOptions::default() };
    relay(&h, both()).options(half).drain().await.unwrap();
    let consumed: i64 = counted(&h, names(64)).await.iter().sum();
    assert!((10..54).contains(&consumed), "{consumed}");
    let rest = RelayOptions { shards: "32-63".parse().unwrap(), ..RelayOptions::default() };
    relay(&h, both()).options(rest).drain().await.unwrap();
    assert_eq!(counted(&h, names(64)).await, [1; 64]);
}

/// Blocks in the handler until the case releases it.
struct Gated {
    entered: mpsc::UnboundedSender<String>,
    gate: Arc<Semaphore>,
}

impl OutsideConsumer for Gated {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
        self.entered.send(paid.n.clone())?;
        self.gate.acquire().await?.forget();
        Ok(())
    }
}

/// F12, G.4: a shutdown finishes the deliveries that were begun and releases the others without counting an attempt.
pub async fn shutdown_finishes_what_was_begun_and_releases_the_rest<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(100)).await;
    let (entered, mut begun) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let gated = Gated { entered, gate: Arc::clone(&gate) };
    let options = LaneOptions { concurrency: 4, ..LaneOptions::default() };
    let running = Running::start(relay(&h, inbox(&h).outside_with(gated, options)));
    let mut names = BTreeSet::new();
    for _ in 0..4 {
        names.insert(begun.recv().await.unwrap());
    }
    running.stop.send(()).unwrap();
    gate.add_permits(1000);
    running.ended.await.unwrap().unwrap();
    while let Ok(name) = begun.try_recv() {
        names.insert(name);
    }
    for n in 0..100 {
        let name = format!("e{n:05}");
        let found = find(&h, &name).await;
        if names.contains(&name) {
            assert!(found.deliveries.is_empty(), "{name} was begun, and is done");
        } else {
            let waiting = &found.deliveries[0];
            assert_eq!((waiting.status, waiting.attempts), (DeliveryStatus::New, 0), "{name} is as it was");
        }
    }
}

/// F11: work that does not finish within the grace period keeps its lease, because its outcome is unknown.
pub async fn what_outlasts_the_grace_is_left_to_its_lease<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let (entered, mut begun) = mpsc::unbounded_channel();
    let gated = Gated { entered, gate: Arc::new(Semaphore::new(0)) };
    let options = RelayOptions { grace: Duration::from_millis(100), ..RelayOptions::default() };
    let running = Running::start(relay(&h, inbox(&h).outside(gated)).options(options));
    begun.recv().await.unwrap();
    running.stop().await;
    let left = delivery(&h, "e").await;
    assert_eq!((left.status, left.attempts), (DeliveryStatus::Processing, 1));
    age(&h, HOUR).await;
    let (sender, mut received) = mpsc::unbounded_channel();
    drain(&h, inbox(&h).outside(Sends(sender))).await;
    assert_eq!(received.recv().await.as_deref(), Some("e"));
}

/// F07: a handler that outlasts its lease keeps it, and the event is not claimed elsewhere.
pub async fn slow_work_keeps_its_lease<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let (entered, mut begun) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let gated = Gated { entered, gate: Arc::clone(&gate) };
    let options = RelayOptions { lease: Duration::from_secs(1), ..RelayOptions::default() };
    let running = Running::start(relay(&h, inbox(&h).outside(gated)).options(options));
    begun.recv().await.unwrap();
    let first = delivery(&h, "e").await.lock_until.unwrap();
    // Until the store shows that the lease was extended by two lease times.
    while delivery(&h, "e").await.lock_until.unwrap() < first + Duration::from_secs(2) {
        let stolen = h.store().claim(&Claim::new(LANE, 1)).await.unwrap();
        assert!(stolen.deliveries.is_empty());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gate.add_permits(1);
    running.stop().await;
    assert!(find(&h, "e").await.deliveries.is_empty());
    assert!(begun.recv().await.is_none(), "it ran once");
}

/// F02: a batch that outlasts its lease is extended, or released before it is begun. Two relays never handle the same
/// event, and none is lost.
pub async fn a_batch_that_outlasts_its_lease_is_tried_once<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(10)).await;
    let (entered, mut begun) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let options = RelayOptions { lease: Duration::from_secs(1), ..RelayOptions::default() };
    let relays: Vec<_> = [(), ()]
        .into_iter()
        .map(|()| {
            let gated = Gated { entered: entered.clone(), gate: Arc::clone(&gate) };
            let one_by_one = LaneOptions { batch: 10, concurrency: 1, ..LaneOptions::default() };
            Running::start(relay(&h, inbox(&h).outside_with(gated, one_by_one)).options(options.clone()))
        })
        .collect();
    drop(entered);
    let mut tried = vec![begun.recv().await.unwrap()];
    let first = delivery(&h, &tried[0]).await.lock_until.unwrap();
    // Until the store shows that the lease was extended by two lease times.
    while delivery(&h, &tried[0]).await.lock_until.unwrap() < first + Duration::from_secs(2) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gate.add_permits(10);
    while tried.len() < 10 {
        tried.push(begun.recv().await.unwrap());
    }
    for relay in relays {
        relay.stop().await;
    }
    assert!(begun.recv().await.is_none(), "each was tried once");
    assert_eq!(tried.iter().collect::<BTreeSet<_>>().len(), 10, "{tried:?}");
    assert!(h.store().counts().await.unwrap().is_empty(), "and none is left");
}

/// Events that arrive while a slow one is handled are delivered at once. Polling is off.
pub async fn a_slow_event_delays_no_other<H: Harness>(h: H) {
    struct OneIsSlow(mpsc::UnboundedSender<String>, Arc<Semaphore>);
    impl OutsideConsumer for OneIsSlow {
        const NAME: &'static str = LANE;
        type Event = Paid;

        async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
            self.0.send(paid.n.clone())?;
            if paid.n == "slow" {
                self.1.acquire().await?.forget();
            }
            Ok(())
        }
    }
    subscribe_lane(&h).await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let slow = OneIsSlow(sender, Arc::clone(&gate));
    let running = Running::start(relay(&h, inbox(&h).outside(slow)).options(never_polls()));
    enqueue_after_registration(&h, "slow", &mut received).await;
    for n in 0..5 {
        let name = format!("quick{n}");
        enqueue_one(&h, draft(&name)).await;
        assert_eq!(received.recv().await, Some(name));
    }
    gate.add_permits(1);
    running.stop().await;
}

/// A transport without a connection returns everything untried. The relay waits before it offers again.
pub async fn a_transport_without_a_connection_is_asked_again_later<H: Harness>(h: H) {
    struct Away(Lane, mpsc::UnboundedSender<tokio::time::Instant>, AtomicU32);
    #[async_trait]
    impl Transport for Away {
        fn lanes(&self) -> Vec<Lane> {
            vec![self.0.clone()]
        }

        async fn prepare(&self, _: &dyn Store) -> postrider::Result<()> {
            Ok(())
        }

        async fn deliver(&self, _: &Lane, parcels: &[Parcel]) -> Vec<Outcome> {
            self.1.send(tokio::time::Instant::now()).unwrap();
            match self.2.fetch_add(1, Ordering::Relaxed) {
                0 => vec![Outcome::NotTried; parcels.len()],
                _ => vec![Outcome::Done; parcels.len()],
            }
        }
    }
    subscribe_lane(&h).await;
    enqueue(&h, drafts(3)).await;
    let lane = Lane {
        name: LANE.into(),
        topics: vec![TOPIC.into()],
        at_once: 1,
        options: LaneOptions { concurrency: 1, ..LaneOptions::default() },
    };
    let (ask, mut asked) = mpsc::unbounded_channel();
    let away = Away(lane, ask, AtomicU32::new(0));
    Relay::new(h.store().clone(), away).drain().await.unwrap();
    let (first, second) = (asked.recv().await.unwrap(), asked.recv().await.unwrap());
    assert!(second - first > Duration::from_millis(500), "asked again after {:?}", second - first);
    assert!(h.store().counts().await.unwrap().is_empty(), "and then everything is delivered");
    let attempts = find(&h, "e00000").await.consumptions;
    assert_eq!(attempts.iter().map(|one| one.attempt).collect::<Vec<_>>(), [1], "what was not tried is no attempt");
}

/// A transport may take fewer deliveries than offered and is offered the
/// rest, except those behind a failure of their key.
pub async fn a_transport_may_take_some_of_what_it_is_offered<H: Harness>(h: H) {
    struct TakesTwo(Lane, mpsc::UnboundedSender<String>);
    #[async_trait]
    impl Transport for TakesTwo {
        fn lanes(&self) -> Vec<Lane> {
            vec![self.0.clone()]
        }

        async fn prepare(&self, _: &dyn Store) -> postrider::Result<()> {
            Ok(())
        }

        async fn deliver(&self, _: &Lane, parcels: &[Parcel]) -> Vec<Outcome> {
            let take = |parcel: &Parcel| {
                let name = parcel.envelope.event_id.to_string();
                self.1.send(name.clone()).unwrap();
                if name.ends_with("-4") { Outcome::Failed(Failure::retry("not now")) } else { Outcome::Done }
            };
            parcels.iter().take(2).map(take).collect()
        }
    }
    subscribe_lane(&h).await;
    for at_once in [1, 5] {
        let (sender, mut received) = mpsc::unbounded_channel();
        let (key, others) = (format!("key{at_once}-"), format!("other{at_once}-"));
        enqueue(&h, keyed(&key, 7).into_iter().chain((101..=160).map(|n| draft(format!("{others}{n}"))))).await;
        let options = LaneOptions { concurrency: 1, ..LaneOptions::default() };
        let lane = Lane { name: LANE.into(), topics: vec![TOPIC.into()], at_once, options };
        Relay::new(h.store().clone(), TakesTwo(lane, sender)).drain().await.unwrap();
        let (mut of_key, mut unkeyed) = (Vec::new(), Vec::new());
        while let Some(name) = received.recv().await {
            of_key.extend(name.strip_prefix(&key).map(number));
            unkeyed.extend(name.strip_prefix(&others).map(number));
        }
        assert_eq!(of_key, [1, 2, 3, 4], "at once {at_once}");
        unkeyed.sort_unstable();
        assert_eq!(unkeyed, (101..=160).collect::<Vec<_>>(), "at once {at_once}");
        let behind = find(&h, &format!("{key}5")).await.deliveries;
        assert_eq!((behind[0].status, behind[0].attempts), (DeliveryStatus::New, 0), "it was not its turn");
    }
}

/// A try that exceeds the timeout fails, and its transaction is rolled back.
pub async fn a_timeout_is_a_failure<H: Harness>(h: H) {
    struct Hangs<H>(H);
    impl<H: Harness> Consumer<H::Store> for Hangs<H> {
        const NAME: &'static str = LANE;
        type Event = Paid;

        async fn handle(&self, tx: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
            self.0.add(tx, &paid.n).await?;
            std::future::pending().await
        }
    }
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(1)).await;
    let options = LaneOptions { timeout: Duration::from_millis(50), ..LaneOptions::default() };
    drain(&h, inbox(&h).consumer_with(Hangs(h.clone()), options)).await;
    assert_eq!(h.counter("e00000").await, 0);
    let found = find(&h, "e00000").await;
    assert_eq!(found.consumptions[0].code.as_deref(), Some("timeout"));
    assert_eq!(found.deliveries[0].status, DeliveryStatus::Failed);
}

/// F10: a failing event follows one backoff, however many relays run.
pub async fn many_relays_follow_one_backoff<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "fails", Via::Local).await;
    enqueue_one(&h, draft("e")).await;
    for attempt in 1..=4 {
        let drains = (0..3).map(|_| {
            let h = h.clone();
            async move { drain(&h, inbox(&h).outside(Fails)).await }
        });
        together(drains).await;
        assert_eq!(find(&h, "e").await.deliveries[0].attempts, attempt);
        age(&h, MINUTE).await;
    }
}

/// A relay refuses two transports for one lane.
pub async fn one_lane_has_one_transport<H: Harness>(h: H) {
    let twice = relay(&h, inbox(&h).outside(Fails)).transport(inbox(&h).outside(Fails));
    assert!(twice.drain().await.is_err());
}

/// Wrong registrations are reported at start, before anything is claimed.
pub async fn mistakes_in_registering_are_refused<H: Harness>(h: H) {
    let usual = LaneOptions::default;
    for (inbox, expected) in [
        (inbox(&h).outside_with(Fails, usual()).outside_with(FailsToo, usual()), "fails has options twice"),
        (inbox(&h).outside(Fails).outside(Fails), "fails is registered twice for order.paid"),
    ] {
        let refused = relay(&h, inbox).drain().await.unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{refused}");
    }
}

/// G.3, F21: a running relay removes old finished events and keeps the others. An inbox retention that is too short is
/// refused before anything is delivered.
pub async fn a_relay_prunes_what_is_old<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(3)).await;
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    age(&h, 24 * 31 * HOUR).await;
    h.make_counter("young1").await;
    enqueue(&h, [draft("young1")]).await;
    let hasty = Retention { inbox: HOUR, ..Retention::default() };
    let refused = relay(&h, inbox(&h).consumer(Count::new(&h))).retention(hasty).drain().await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { .. }), "{refused:?}");
    assert_eq!(h.counter("young1").await, 0);

    let running = Running::start(relay(&h, inbox(&h).consumer(Count::new(&h))).retention(Retention::default()));
    while is_stored(&h, "e00000").await || is_stored(&h, "e00002").await {
        tokio::task::yield_now().await;
    }
    running.stop().await;
    assert!(is_stored(&h, "young1").await);
}

/// F22: a relay that cannot remove old rows raises an alarm.
pub async fn a_relay_that_cannot_prune_raises_an_alarm<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_counted(&h, names(1)).await;
    drain(&h, inbox(&h).consumer(Count::new(&h))).await;
    age(&h, 24 * 31 * HOUR).await;
    let file = std::env::temp_dir().join(format!("postrider-archive-{}", uuid::Uuid::new_v4().simple()));
    std::fs::write(&file, "a file where the folder should be").unwrap();
    let retention = Retention { archive: Some(file.clone()), ..Retention::default() };
    let alarms = Alarms::default();
    let relay = relay(&h, inbox(&h).consumer(Count::new(&h))).retention(retention).also_alert(alarms.clone());
    let running = Running::start(relay);
    alarms.1.notified().await;
    running.stop().await;
    let alarms = alarms.0.lock().unwrap().clone();
    assert!(matches!(&alarms[..], [Alarm::NotPruned { error }] if error.contains("cannot be written")), "{alarms:?}");
    assert!(is_stored(&h, "e00000").await);
    std::fs::remove_file(file).unwrap();
}
