//! Every name by which Postrider is observed: metrics, log fields, messages. No other file has one.
//!
//! Metrics go to the recorder that the program has installed ([`metrics`]); without one they cost nothing. [`describe`]
//! gives it their help texts. The only label is the consumer: the number of ids or keys has no limit.

mod place;

use std::time::Duration;

use metrics::{Counter, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use tracing::Span;
use tracing::field::Empty;

use crate::clock::{Clock, SystemClock};
use crate::entry::Outcome;
use crate::envelope::Envelope;
use crate::error::Result;
use crate::store::{Enqueued, LaneCounts, NewEvent};
use crate::transport::Parcel;

pub use place::set_parent;
pub(crate) use place::{header, is_current, link, place, set_parent_of};

/// Events written by this process, without duplicates.
pub const EVENTS_CREATED: &str = "postrider_outbox_events_created_total";
/// Deliveries that reached their consumer or the broker.
pub const EVENTS_SENT: &str = "postrider_outbox_events_sent_total";
/// Attempts that failed.
pub const EVENTS_FAILED: &str = "postrider_outbox_events_failed_total";
/// Deliveries that were given up (DEAD).
pub const EVENTS_DEAD: &str = "postrider_outbox_events_dead_total";
/// Events written without any subscription to their topic.
pub const EVENTS_UNHEARD: &str = "postrider_outbox_events_unheard_total";
/// Deliveries that wait or are being worked on.
pub const EVENTS_PENDING: &str = "postrider_outbox_events_pending";
/// How long the oldest of them has been due, in seconds.
pub const OLDEST_PENDING: &str = "postrider_outbox_oldest_pending_seconds";
/// Effects that happened, by consumer.
pub const CONSUMED: &str = "postrider_consumer_events_consumed_total";
/// Deliveries whose effect had happened before, by consumer.
pub const IDEMPOTENT: &str = "postrider_consumer_events_idempotent_total";
/// Attempts that failed, by consumer.
pub const CONSUMER_FAILED: &str = "postrider_consumer_events_failed_total";
/// Deliveries that wait, by consumer.
pub const CONSUMER_LAG: &str = "postrider_consumer_lag";
/// Deliveries that wait behind a dead one of their key, by consumer.
pub const CONSUMER_HELD: &str = "postrider_consumer_held";
/// Dead deliveries that are not redriven yet, by consumer.
pub const CONSUMER_DEAD: &str = "postrider_consumer_dead";
/// From when an event was written, or was due, to its effect, in seconds, by consumer.
pub const DELIVERY_SECONDS: &str = "postrider_delivery_seconds";
/// Results that came after their lease was lost.
pub const LEASE_LOST: &str = "postrider_relay_lease_lost_total";
/// Deliveries released untried because their lease was about to run out.
pub const SHED: &str = "postrider_relay_shed_total";
/// Times that the store did not answer.
pub const STORE_UNAVAILABLE: &str = "postrider_store_unavailable_total";
/// 1 while the broker takes nothing because it is short of memory or disk.
pub const BROKER_BLOCKED: &str = "postrider_broker_blocked";
/// Alarms that could not be sent.
pub const ALERTS_FAILED: &str = "postrider_alerts_failed_total";

/// Credentials that a server has refused.
pub const LOGINS_FAILED: &str = "postrider_logins_failed_total";

/// The upper bounds of the buckets of [`DELIVERY_SECONDS`]: from a millisecond to an hour.
pub const DELIVERY_SECONDS_BUCKETS: [f64; 12] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0];

/// One metric, as a recorder needs to know it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its help text.
    pub help: &'static str,
    /// The upper bounds of a histogram's buckets; empty for other kinds.
    pub buckets: &'static [f64],
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It is set.
    Gauge,
    /// It has buckets.
    Histogram,
}

/// Every metric of the library.
pub const METRICS: [Metric; 20] = [
    Metric {
        name: LOGINS_FAILED,
        kind: MetricKind::Counter,
        help: "Credentials that the server refused: unknown, revoked or expired.",
        buckets: &[],
    },
    Metric {
        name: EVENTS_CREATED,
        kind: MetricKind::Counter,
        help: "Events written by this process, without duplicates.",
        buckets: &[],
    },
    Metric {
        name: EVENTS_SENT,
        kind: MetricKind::Counter,
        help: "Deliveries that reached their consumer or the broker.",
        buckets: &[],
    },
    Metric { name: EVENTS_FAILED, kind: MetricKind::Counter, help: "Attempts that failed.", buckets: &[] },
    Metric {
        name: EVENTS_DEAD,
        kind: MetricKind::Counter,
        help: "Deliveries that were given up (DEAD).",
        buckets: &[],
    },
    Metric {
        name: EVENTS_UNHEARD,
        kind: MetricKind::Counter,
        help: "Events written without any subscription to their topic.",
        buckets: &[],
    },
    Metric {
        name: EVENTS_PENDING,
        kind: MetricKind::Gauge,
        help: "Deliveries that wait or are being worked on.",
        buckets: &[],
    },
    Metric {
        name: OLDEST_PENDING,
        kind: MetricKind::Gauge,
        help: "How long the oldest of them has been due, in seconds.",
        buckets: &[],
    },
    Metric { name: CONSUMED, kind: MetricKind::Counter, help: "Effects that happened, by consumer.", buckets: &[] },
    Metric {
        name: IDEMPOTENT,
        kind: MetricKind::Counter,
        help: "Deliveries whose effect had happened before, by consumer.",
        buckets: &[],
    },
    Metric {
        name: CONSUMER_FAILED,
        kind: MetricKind::Counter,
        help: "Attempts that failed, by consumer.",
        buckets: &[],
    },
    Metric { name: CONSUMER_LAG, kind: MetricKind::Gauge, help: "Deliveries that wait, by consumer.", buckets: &[] },
    Metric {
        name: CONSUMER_HELD,
        kind: MetricKind::Gauge,
        help: "Deliveries that wait behind a dead one of their key, by consumer.",
        buckets: &[],
    },
    Metric {
        name: CONSUMER_DEAD,
        kind: MetricKind::Gauge,
        help: "Dead deliveries that are not redriven yet, by consumer.",
        buckets: &[],
    },
    Metric {
        name: DELIVERY_SECONDS,
        kind: MetricKind::Histogram,
        help: "From when an event was written, or was due, to its effect, in seconds, by consumer.",
        buckets: &DELIVERY_SECONDS_BUCKETS,
    },
    Metric {
        name: LEASE_LOST,
        kind: MetricKind::Counter,
        help: "Results that came after their lease was lost.",
        buckets: &[],
    },
    Metric {
        name: SHED,
        kind: MetricKind::Counter,
        help: "Deliveries released untried because their lease was about to run out.",
        buckets: &[],
    },
    Metric {
        name: STORE_UNAVAILABLE,
        kind: MetricKind::Counter,
        help: "Times that the store did not answer.",
        buckets: &[],
    },
    Metric {
        name: BROKER_BLOCKED,
        kind: MetricKind::Gauge,
        help: "1 while the broker takes nothing because it is short of memory or disk.",
        buckets: &[],
    },
    Metric { name: ALERTS_FAILED, kind: MetricKind::Counter, help: "Alarms that could not be sent.", buckets: &[] },
];

/// Gives the help text of every metric to the recorder that is installed. Call it once, after the recorder was installed.
///
/// Most recorders take the buckets of histograms when they are built. With `metrics-exporter-prometheus`:
///
/// ```text
/// let mut builder = PrometheusBuilder::new();
/// for metric in postrider::observe::METRICS.iter().filter(|metric| !metric.buckets.is_empty()) {
///     builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.into()), metric.buckets)?;
/// }
/// builder.install()?;
/// postrider::observe::describe();
/// ```
pub fn describe() {
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => describe_histogram!(metric.name, metric.help),
        }
    }
}

/// The target of the spans `publish` and `deliver`, and of `request` in the server. Their fields have the names that
/// OpenTelemetry gives them, and no field has a payload. The span `consume` has the target `postrider::inbox`, and the
/// fields of a log line.
pub const SPANS: &str = "postrider::spans";

/// The message of a log line about an enqueued event.
pub(crate) const ENQUEUED: &str = "Outbox enqueued";
/// The message of a log line about an event that reached its consumer or the broker.
pub(crate) const PUBLISHED: &str = "Outbox published";
/// The message of a log line about an effect; a duplicate has none.
pub(crate) const CONSUMED_LINE: &str = "Consumed";

/// Whether a subscriber collects spans.
#[doc(hidden)]
pub fn wants_spans() -> bool {
    tracing::span_enabled!(target: SPANS, tracing::Level::INFO)
}

/// The span of an event that is written. It is below the current span.
pub(crate) fn publishing(envelope: &Envelope) -> Span {
    tracing::info_span!(
        target: SPANS,
        "publish",
        otel.kind = "producer",
        messaging.message.id = envelope.event_id.as_str(),
        messaging.destination.name = envelope.topic,
        trace_id = Empty,
        postrider.outcome = Empty,
        otel.status_code = Empty,
    )
}

/// Records how the write ended.
pub(crate) fn published(batch: &[NewEvent], enqueued: &Result<Vec<Enqueued>>) {
    for (n, NewEvent { span, .. }) in batch.iter().enumerate() {
        let outcome = match enqueued.as_ref().map(|enqueued| enqueued.get(n)) {
            Ok(Some(Enqueued::Accepted(_))) => "accepted",
            Ok(Some(Enqueued::Duplicate(_))) => "duplicate",
            Ok(Some(Enqueued::Unheard(_))) => "unheard",
            Ok(Some(Enqueued::Skipped(_))) => "skipped",
            Ok(None) | Err(_) => {
                span.record("otel.status_code", "ERROR");
                "failed"
            }
        };
        span.record("postrider.outcome", outcome);
    }
}

/// A span for one attempt to deliver, below the span that wrote the event.
#[doc(hidden)]
pub fn delivering(consumer: &str, attempt: u32, envelope: &Envelope) -> Span {
    let span = tracing::info_span!(
        target: SPANS,
        // A relay delivers many at a time; none of them is the parent of another.
        parent: None,
        "deliver",
        otel.kind = "consumer",
        messaging.message.id = envelope.event_id.as_str(),
        messaging.destination.name = envelope.topic,
        messaging.consumer.group.name = consumer,
        trace_id = envelope.trace_id.as_deref(),
        // Unsigned numbers would be exported as text.
        postrider.attempt = i64::from(attempt),
        postrider.outcome = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    );
    if let (Some(trace_id), Some(span_id)) = (&envelope.trace_id, &envelope.span_id) {
        set_parent(&span, trace_id, span_id);
    }
    span
}

/// Spans for attempts that begin together. Empty where spans are not collected.
pub(crate) fn delivering_all(consumer: &str, parcels: &[Parcel]) -> Vec<Span> {
    if wants_spans() {
        parcels.iter().map(|parcel| delivering(consumer, parcel.attempt, &parcel.envelope)).collect()
    } else {
        Vec::new()
    }
}

/// Records how an attempt ended.
#[doc(hidden)]
pub fn delivered(span: &Span, outcome: &Outcome) {
    let word = match outcome {
        Outcome::Completed | Outcome::Done => "done",
        Outcome::Duplicate => "duplicate",
        Outcome::NotTried | Outcome::Behind => "notTried",
        Outcome::LeaseLost => "leaseLost",
        Outcome::Expired => "expired",
        Outcome::Exhausted => "exhausted",
        Outcome::Failed(failure) => {
            // Without the text of the error, which may quote a payload.
            span.record("otel.status_code", "ERROR");
            if let Some(code) = &failure.cause().code {
                span.record("error.type", code.as_str());
            }
            "failed"
        }
    };
    span.record("postrider.outcome", word);
}

pub(crate) fn created(events: usize) {
    counter!(EVENTS_CREATED).increment(events as u64);
}

pub(crate) fn unheard(events: usize) {
    counter!(EVENTS_UNHEARD).increment(events as u64);
}

/// The metrics of one lane. They are looked up once, since a lookup takes longer than counting.
#[doc(hidden)]
#[derive(Clone)]
pub struct LaneFigures {
    sent: Counter,
    failed: Counter,
    dead: Counter,
    consumed: Counter,
    idempotent: Counter,
    consumer_failed: Counter,
    seconds: Histogram,
}

impl LaneFigures {
    /// The metrics of this consumer's lane.
    pub fn new(consumer: &str) -> Self {
        let consumer = consumer.to_owned();
        Self {
            sent: counter!(EVENTS_SENT),
            failed: counter!(EVENTS_FAILED),
            dead: counter!(EVENTS_DEAD),
            consumed: counter!(CONSUMED, "consumer" => consumer.clone()),
            idempotent: counter!(IDEMPOTENT, "consumer" => consumer.clone()),
            consumer_failed: counter!(CONSUMER_FAILED, "consumer" => consumer.clone()),
            seconds: histogram!(DELIVERY_SECONDS, "consumer" => consumer),
        }
    }

    pub(crate) fn sent(&self, deliveries: usize) {
        self.sent.increment(deliveries as u64);
    }

    /// An attempt failed.
    pub fn failed(&self) {
        self.failed.increment(1);
        self.consumer_failed.increment(1);
    }

    /// A delivery was given up.
    pub fn dead(&self) {
        self.dead.increment(1);
    }

    /// Deliveries that a pulling consumer has settled. It tells no time, so there is no sample of [`DELIVERY_SECONDS`].
    pub fn settled(&self, deliveries: usize) {
        self.sent(deliveries);
        self.consumed.increment(deliveries as u64);
    }

    /// A remote consumer reports an effect.
    pub fn reported(&self) {
        self.consumed.increment(1);
    }

    /// The effect had happened before.
    pub fn idempotent(&self) {
        self.idempotent.increment(1);
    }

    /// By the clocks of this process and of the writer: nothing else depends on this figure.
    pub(crate) fn consumed(&self, envelope: &Envelope) {
        let due = envelope.deliver_at.unwrap_or(envelope.occurred_at).max(envelope.occurred_at);
        self.consumed.increment(1);
        self.seconds.record((SystemClock.now() - due).as_seconds_f64().max(0.0));
    }
}

/// Results came after their lease was lost.
#[doc(hidden)]
pub fn lease_lost(deliveries: usize) {
    counter!(LEASE_LOST).increment(deliveries as u64);
}

/// A server has refused credentials.
pub fn login_failed() {
    counter!(LOGINS_FAILED).increment(1);
}

pub(crate) fn shed(deliveries: usize) {
    counter!(SHED).increment(deliveries as u64);
}

pub(crate) fn store_unavailable() {
    counter!(STORE_UNAVAILABLE).increment(1);
}

#[cfg(feature = "rabbitmq")]
pub(crate) fn broker_blocked(blocked: bool) {
    gauge!(BROKER_BLOCKED).set(f64::from(u8::from(blocked)));
}

pub(crate) fn alert_failed() {
    counter!(ALERTS_FAILED).increment(1);
}

pub(crate) fn pending(deliveries: u64, oldest: Duration) {
    gauge!(EVENTS_PENDING).set(deliveries as f64);
    gauge!(OLDEST_PENDING).set(oldest.as_secs_f64());
}

pub(crate) fn lane(consumer: &str, waiting: u64, counts: &LaneCounts) {
    for (name, deliveries) in [(CONSUMER_LAG, waiting), (CONSUMER_HELD, counts.held), (CONSUMER_DEAD, counts.dead)] {
        gauge!(name, "consumer" => consumer.to_owned()).set(deliveries as f64);
    }
}
