//! Logs and metrics of whole programs.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use postrider::observe::{self, MetricKind};
use postrider::prelude::*;
use postrider::store::memory::{Conn, MemoryStore};
use postrider::store::{Claim, DeadHead};
use postrider::testing::Age;
use postrider::{
    Consumer, Draft, Event, Failure, Inbox, Initiator, Outbox, OutsideConsumer, Received, Relay, Subscription, Via,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Paid {
    order: u32,
    secret: String,
}

impl Event for Paid {
    const TOPIC: &'static str = "order.paid";
    fn event_id(&self) -> Option<String> {
        Some(format!("order:{}:paid", self.order))
    }
    fn key(&self) -> Option<String> {
        Some(self.order.to_string())
    }
}

#[derive(Serialize, Deserialize)]
struct Earned {
    points: u32,
}

impl Event for Earned {
    const TOPIC: &'static str = "points.earned";
}

struct Points(Outbox<MemoryStore>);

impl Consumer<MemoryStore> for Points {
    const NAME: &'static str = "points";
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn, paid: Received<Paid>) -> Result<(), Failure> {
        match paid.order {
            13 => return Err(Failure::reject("unlucky").code("luck")),
            14 => return Err(Failure::retry("not now")),
            _ => {}
        }
        self.0.enqueue(tx, &Earned { points: 99 }).await?;
        Ok(())
    }
}

struct Mail;

impl OutsideConsumer for Mail {
    const NAME: &'static str = "mail";
    type Event = Earned;

    async fn handle(&self, _: Received<Earned>) -> Result<(), Failure> {
        Ok(())
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const REQUEST: &str = "request-4711";

/// Pays orders, and delivers everything on one thread: local recorders and subscribers see only that.
fn pay_and_deliver(orders: &[u32]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = MemoryStore::new();
        for (topic, consumer) in [("order.paid", "points"), ("points.earned", "mail")] {
            store.set_subscription(&Subscription::new(topic, consumer, Via::Local)).await.expect("subscribes");
        }
        let outbox = Outbox::new(store.clone());
        for order in orders {
            let paid = Paid { order: *order, secret: "hunter2".into() };
            let mut tx = store.begin().await.expect("begins");
            let initiator = Initiator { client_request_id: Some(REQUEST.into()), ..Initiator::default() };
            let draft = Draft::of(&paid).expect("JSON").trace(TRACE, None).initiator(initiator);
            outbox.enqueue(&mut tx, draft).await.expect("enqueues");
            store.commit(tx).await.expect("commits");
        }
        let drain = async || {
            let inbox = Inbox::new(store.clone()).consumer(Points(outbox.clone())).outside(Mail);
            Relay::new(store.clone(), inbox).drain().await.expect("drains");
        };
        drain().await;
        store.redrive("order:7:paid", "points", None).await.expect("redrives");
        drain().await;
    });
}

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A.16: a trace id finds all log lines of one order, in order, each with the ids to search further, and so does the id
/// of the request. A duplicate has no second "Consumed", and no line contains a payload (S21).
#[test]
fn one_order_is_found_in_the_log_by_its_trace_and_its_request() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    tracing::subscriber::with_default(subscriber.finish(), || pay_and_deliver(&[7]));

    let text = String::from_utf8(log.0.lock().expect("no writer panics").clone()).expect("UTF-8");
    assert!(!text.contains("hunter2"), "payloads are not logged");
    let story: Vec<_> = text
        .lines()
        .filter(|line| line.contains(TRACE) && line.contains(REQUEST))
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|line| {
            let field = |name: &str| {
                let value = [&line["fields"][name], &line["span"][name]].into_iter().find(|value| !value.is_null());
                value.map(|value| value.as_str().unwrap_or_default().to_owned()).unwrap_or_default()
            };
            (field("message"), field("topic"), field("consumer") + &field("lane"))
        })
        .collect();
    let told = |message: &str, topic: &str, by: &str| {
        story.iter().position(|line| (line.0.as_str(), line.1.as_str(), line.2.as_str()) == (message, topic, by))
    };
    let order = [
        told("Outbox enqueued", "order.paid", ""),
        told("Outbox enqueued", "points.earned", "points"),
        told("Consumed", "order.paid", "points"),
        told("Consumed", "points.earned", "mail"),
    ];
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?} of {story:#?}");
    assert!(told("Outbox published", "order.paid", "points").is_some(), "{story:#?}");
    let consumed = story.iter().filter(|line| line.0 == "Consumed" && line.1 == "order.paid").count();
    assert_eq!(consumed, 1, "{story:#?}");
    assert!(text.contains("order:7:paid"), "and by its event id");
}

/// A.5, A.16: a dead delivery is an error in the log, also at the first rejection, and a failure that is tried again is a
/// warning, each with the ids to find it.
#[test]
fn failures_are_in_the_log_with_the_ids_to_find_them() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone());
    tracing::subscriber::with_default(subscriber.finish(), || pay_and_deliver(&[7, 13, 14]));

    let text = String::from_utf8(log.0.lock().expect("no writer panics").clone()).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let (errors, others): (Vec<_>, Vec<_>) = lines.partition(|line| line["level"] == "ERROR");
    let [dead] = &errors[..] else { panic!("one error: {errors:#?}") };
    for (field, expected) in [
        ("message", "DEAD: given up. Redrive it when the cause is repaired"),
        ("event_id", "order:13:paid"),
        ("topic", "order.paid"),
        ("consumer", "points"),
        ("key", "13"),
        ("code", "luck"),
        ("trace_id", TRACE),
        ("request_id", REQUEST),
        ("error", "unlucky"),
    ] {
        assert_eq!(dead["fields"][field], expected, "{field} of {dead:#}");
    }
    let failed = others.iter().find(|line| line["fields"]["message"] == "failed, will be tried again");
    let failed = failed.unwrap_or_else(|| panic!("a warning: {text}"));
    for (field, expected) in
        [("event_id", "order:14:paid"), ("trace_id", TRACE), ("request_id", REQUEST), ("error", "not now")]
    {
        assert_eq!(failed["fields"][field], expected, "{field} of {failed:#}");
    }
    assert_eq!((&dead["fields"]["attempts"], &dead["fields"]["held"]), (&1.into(), &0.into()));
}

/// A hook that keeps nothing.
struct Hook;

#[async_trait::async_trait]
impl postrider::alert::Alert for Hook {
    async fn alert(&self, _: &postrider::alert::Alarm) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

/// A.5: an alert hook of the user does not replace the line in the log, which tells how many deliveries wait behind.
#[test]
fn a_hook_does_not_replace_the_error_in_the_log() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tracing::subscriber::with_default(subscriber.finish(), || {
        runtime.block_on(async {
            let store = MemoryStore::new();
            store.set_subscription(&Subscription::new("order.paid", "slow", Via::Local)).await.expect("subscribes");
            let outbox = Outbox::new(store.clone());
            let mut tx = store.begin().await.expect("begins");
            for (id, order) in [("first", 13), ("second", 7), ("third", 7)] {
                let paid = Draft::of(&Paid { order, secret: String::new() }).expect("JSON").event_id(id).key("one");
                outbox.enqueue(&mut tx, paid).await.expect("enqueues");
            }
            store.commit(tx).await.expect("commits");
            let inbox = Inbox::new(store.clone()).outside(Slow);
            Relay::new(store.clone(), inbox).also_alert(Hook).drain().await.expect("drains");
        });
    });
    let text = String::from_utf8(log.0.lock().expect("no writer panics").clone()).expect("UTF-8");
    let dead: Vec<_> = text.lines().filter(|line| line.contains("DEAD")).collect();
    let [dead] = &dead[..] else { panic!("one line: {text}") };
    let dead: serde_json::Value = serde_json::from_str(dead).expect("JSON");
    let fields = &dead["fields"];
    assert_eq!((&dead["level"], &fields["event_id"], &fields["held"]), (&"ERROR".into(), &"first".into(), &2.into()));
}

/// The figures by name and labels. Of a histogram, the number of samples.
fn values(snapshotter: &Snapshotter) -> BTreeMap<String, u64> {
    snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let (name, labels) = key.key().clone().into_parts();
            let labels: Vec<_> = labels.iter().map(|label| format!("{{{}={}}}", label.key(), label.value())).collect();
            let value = match value {
                DebugValue::Counter(count) => count,
                DebugValue::Gauge(gauge) => gauge.into_inner() as u64,
                DebugValue::Histogram(samples) => samples.len() as u64,
            };
            (format!("{}{}", name.as_str(), labels.concat()), value)
        })
        .collect()
}

/// A.18: the figures, under the names that dashboards use.
#[test]
fn figures_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || pay_and_deliver(&[7, 8, 13, 14]));
    let figures = values(&snapshotter);
    let expected = [
        ("postrider_outbox_events_created_total", 6),
        // Three of points (one of them the duplicate) and two of mail.
        ("postrider_outbox_events_sent_total", 5),
        ("postrider_outbox_events_failed_total", 2),
        ("postrider_outbox_events_dead_total", 1),
        ("postrider_consumer_events_consumed_total{consumer=points}", 2),
        ("postrider_consumer_events_consumed_total{consumer=mail}", 2),
        ("postrider_consumer_events_idempotent_total{consumer=points}", 1),
        ("postrider_consumer_events_failed_total{consumer=points}", 2),
    ];
    for (name, value) in expected {
        assert_eq!(figures.get(name), Some(&value), "{name} of {figures:#?}");
    }
    assert!(figures["postrider_delivery_seconds{consumer=points}"] >= 2, "{figures:#?}");
}

/// A consumer that takes a moment, so that its delivery is counted meanwhile.
struct Slow;

impl OutsideConsumer for Slow {
    const NAME: &'static str = "slow";
    type Event = Paid;

    async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if paid.order == 13 { Err(Failure::reject("unlucky")) } else { Ok(()) }
    }
}

/// A.18: the gauges of a consumer rise with what waits, is held and is dead, and return to zero.
#[test]
fn gauges_return_to_zero() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let gauges = || {
        let values = values(&snapshotter);
        let pending = values["postrider_outbox_events_pending"];
        let gauges = ["lag", "held", "dead"].map(|name| values[&format!("postrider_consumer_{name}{{consumer=slow}}")]);
        assert_eq!(pending, gauges[0], "there is one consumer");
        assert!(values.contains_key("postrider_outbox_oldest_pending_seconds"), "{values:?}");
        gauges
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let store = MemoryStore::new();
            let drain = async || {
                let relay = Relay::new(store.clone(), Inbox::new(store.clone()).outside(Slow));
                relay.drain().await.expect("drains");
            };
            drain().await;
            assert_eq!(gauges(), [0, 0, 0], "a lane that never had a delivery has its gauges");
            let outbox = Outbox::new(store.clone());
            let mut tx = store.begin().await.expect("begins");
            for (id, order) in [("first", 13), ("second", 7)] {
                let paid = Draft::of(&Paid { order, secret: String::new() }).expect("JSON").event_id(id).key("one");
                outbox.enqueue(&mut tx, paid).await.expect("enqueues");
            }
            store.commit(tx).await.expect("commits");
            drain().await;
            assert_eq!(gauges(), [2, 0, 0], "as the second relay found it at its start");
            drain().await;
            assert_eq!(gauges(), [1, 1, 1], "one is dead, and one waits behind it");
            for id in ["first", "second"] {
                store.expire(id).await.expect("expires");
            }
            drain().await;
            drain().await;
            assert_eq!(gauges(), [0, 0, 0]);
        });
    });
}

/// A consumer that takes so long that another instance has its delivery.
struct Late(MemoryStore);

impl OutsideConsumer for Late {
    const NAME: &'static str = "late";
    type Event = Paid;

    async fn handle(&self, _: Received<Paid>) -> Result<(), Failure> {
        self.0.age(Duration::from_secs(3_600)).await?;
        let taken = self.0.claim_keyed(&Claim::new("late", 10), DeadHead::Hold).await?;
        assert_eq!(taken.deliveries.len(), 1, "its lease is over");
        Ok(())
    }
}

/// A.18: a result that comes after its lease was lost is counted, and is no delivery that was sent. The gauges tell how
/// many wait, and since when.
#[test]
fn a_lost_lease_is_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let store = MemoryStore::new();
            store.set_subscription(&Subscription::new("order.paid", "late", Via::Local)).await.expect("subscribes");
            let mut tx = store.begin().await.expect("begins");
            let paid = Paid { order: 7, secret: String::new() };
            Outbox::new(store.clone()).enqueue(&mut tx, &paid).await.expect("enqueues");
            store.commit(tx).await.expect("commits");
            let drain = async |inbox| Relay::new(store.clone(), inbox).drain().await.expect("drains");
            drain(Inbox::new(store.clone()).outside(Late(store.clone()))).await;
            drain(Inbox::new(store.clone()).outside(Slow)).await;
        });
    });
    let figures = values(&snapshotter);
    for (name, value) in [
        ("postrider_relay_lease_lost_total", 1),
        ("postrider_outbox_events_sent_total", 0),
        ("postrider_outbox_events_pending", 1),
        ("postrider_consumer_lag{consumer=late}", 1),
    ] {
        assert_eq!(figures.get(name), Some(&value), "{name} of {figures:#?}");
    }
    let oldest = figures["postrider_outbox_oldest_pending_seconds"];
    assert!((3_600..3_700).contains(&oldest), "{oldest} seconds");
}

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/prometheus-rules.yml");

/// G.10: the example rules for Prometheus use metrics that exist.
#[test]
fn the_example_rules_use_our_metrics() {
    let rules = std::fs::read_to_string(RULES).expect("the rules are there");
    let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named: Vec<_> = words.filter(|word| word.starts_with("postrider_")).collect();
    assert!(named.len() > 8, "{named:?}");
    for name in named {
        assert!(observe::METRICS.iter().any(|metric| metric.name == name), "{name} is no metric");
    }
}

/// G.10: Prometheus accepts the example rules.
#[test]
fn promtool_accepts_the_example_rules() {
    let checked = std::process::Command::new("promtool").args(["check", "rules", RULES]).output();
    let checked = checked.expect("promtool is missing: run `make services`");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// The recorder gets a description of every figure.
#[test]
fn every_figure_is_described() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        observe::describe();
        pay_and_deliver(&[7, 13, 14]);
    });
    for (key, _, description, _) in snapshotter.snapshot().into_vec() {
        let name = key.key().name();
        let metric = observe::METRICS.iter().find(|metric| metric.name == name);
        assert_eq!(description.as_deref(), metric.map(|metric| metric.help), "{name}");
        assert!(description.is_some(), "{name}");
    }
    for metric in observe::METRICS {
        assert_eq!(metric.kind == MetricKind::Histogram, !metric.buckets.is_empty(), "{}", metric.name);
        assert!(metric.buckets.is_sorted(), "{}", metric.name);
    }
}
