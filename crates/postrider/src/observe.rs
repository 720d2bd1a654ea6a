//! Every name by which Postrider is observed: metrics, log fields, messages. Nobody else writes one.
//!
//! Metrics go to whatever recorder the program has installed ([`metrics`]); without one they cost nothing. Labels are
//! consumers only: an id or a key as a label would grow without end.

use std::time::Duration;

use metrics::{Counter, Histogram, counter, gauge, histogram};

use tracing::Span;
use tracing::field::Empty;

use crate::clock::{Clock, SystemClock};
use crate::entry::Outcome;
use crate::envelope::Envelope;
use crate::error::Result;
use crate::store::{Enqueued, NewEvent};
use crate::transport::Parcel;

/// Events written by this process, duplicates not counted.
pub const EVENTS_CREATED: &str = "postrider_outbox_events_created_total";
/// Deliveries that reached where they were going.
pub const EVENTS_SENT: &str = "postrider_outbox_events_sent_total";
/// Attempts that failed.
pub const EVENTS_FAILED: &str = "postrider_outbox_events_failed_total";
/// Deliveries given up.
pub const EVENTS_DEAD: &str = "postrider_outbox_events_dead_total";
/// Events written that nobody hears.
pub const EVENTS_UNHEARD: &str = "postrider_outbox_events_unheard_total";
/// Deliveries that wait or are worked on.
pub const EVENTS_PENDING: &str = "postrider_outbox_events_pending";
/// How long the oldest of them has been due.
pub const OLDEST_PENDING: &str = "postrider_outbox_oldest_pending_seconds";
/// Effects that happened.
pub const CONSUMED: &str = "postrider_consumer_events_consumed_total";
/// Deliveries whose effect had happened before.
pub const IDEMPOTENT: &str = "postrider_consumer_events_idempotent_total";
/// Attempts of a consumer that failed.
pub const CONSUMER_FAILED: &str = "postrider_consumer_events_failed_total";
/// Deliveries that wait for a consumer.
pub const CONSUMER_LAG: &str = "postrider_consumer_lag";
/// From when an event was written, or was due, to its effect.
pub const DELIVERY_SECONDS: &str = "postrider_delivery_seconds";
/// Results that came too late to count.
pub const LEASE_LOST: &str = "postrider_relay_lease_lost_total";
/// Deliveries given back because their lease was about to run out before they could be tried.
pub const SHED: &str = "postrider_relay_shed_total";
/// Times that the store did not answer.
pub const STORE_UNAVAILABLE: &str = "postrider_store_unavailable_total";
/// 1 while the broker takes nothing, being short of memory or disk.
pub const BROKER_BLOCKED: &str = "postrider_broker_blocked";
/// Alerts that could not be passed on.
pub const ALERTS_FAILED: &str = "postrider_alerts_failed_total";

/// The target of spans that are there to be exported: `publish` and `deliver` here, `request` in the server. Each names the
/// event's trace (`trace_id`) and the span that caused it (`parent_span_id`), and never what an event says.
pub const SPANS: &str = "postrider::spans";

/// What a log line about an enqueued event says.
pub(crate) const ENQUEUED: &str = "Outbox enqueued";
/// What a log line about an event that reached its lane's end says.
pub(crate) const PUBLISHED: &str = "Outbox published";
/// What a log line about an effect says; a duplicate has none.
pub(crate) const CONSUMED_LINE: &str = "Consumed";

/// Whether anybody wants spans: somebody collects them.
pub(crate) fn wants_spans() -> bool {
    tracing::span_enabled!(target: SPANS, tracing::Level::INFO)
}

/// The writing of events, one span each: they may belong to different traces. Empty where nobody wants any.
pub(crate) fn publishing(batch: &[NewEvent]) -> Vec<Span> {
    if !wants_spans() {
        return Vec::new();
    }
    let span = |NewEvent { envelope, .. }: &NewEvent| {
        tracing::info_span!(
            target: SPANS,
            "publish",
            trace_id = envelope.trace_id.as_deref(),
            parent_span_id = envelope.span_id.as_deref(),
            event_id = envelope.event_id.as_str(),
            topic = envelope.topic,
            outcome = Empty,
        )
    };
    batch.iter().map(span).collect()
}

/// How the writing ended.
pub(crate) fn published(spans: &[Span], enqueued: &Result<Vec<Enqueued>>) {
    for (n, span) in spans.iter().enumerate() {
        let outcome = match enqueued.as_ref().map(|enqueued| enqueued.get(n)) {
            Ok(Some(Enqueued::Accepted(_))) => "accepted",
            Ok(Some(Enqueued::Duplicate(_))) => "duplicate",
            Ok(Some(Enqueued::Unheard(_))) => "unheard",
            Ok(Some(Enqueued::Skipped(_))) => "skipped",
            Ok(None) | Err(_) => "failed",
        };
        span.record("outcome", outcome);
    }
}

/// One attempt to deliver; handed out to a consumer that pulls, it ends at once.
pub fn delivering(consumer: &str, attempt: u32, envelope: &Envelope) -> Span {
    tracing::info_span!(
        target: SPANS,
        // A relay has many in hand; none of them caused the other.
        parent: None,
        "deliver",
        trace_id = envelope.trace_id.as_deref(),
        parent_span_id = envelope.span_id.as_deref(),
        event_id = envelope.event_id.as_str(),
        topic = envelope.topic,
        consumer,
        attempt,
        outcome = Empty,
        code = Empty,
    )
}

/// Attempts that begin together. Empty where nobody wants any.
pub(crate) fn delivering_all(consumer: &str, parcels: &[Parcel]) -> Vec<Span> {
    match wants_spans() {
        true => parcels.iter().map(|parcel| delivering(consumer, parcel.attempt, &parcel.envelope)).collect(),
        false => Vec::new(),
    }
}

/// How the attempt ended.
pub(crate) fn delivered(span: &Span, outcome: &Outcome) {
    let word = match outcome {
        Outcome::Completed | Outcome::Done => "done",
        Outcome::Duplicate => "duplicate",
        Outcome::NotTried | Outcome::Behind => "notTried",
        Outcome::LeaseLost => "leaseLost",
        Outcome::Expired => "expired",
        Outcome::Exhausted => "exhausted",
        Outcome::Failed(failure) => {
            if let Some(code) = &failure.cause().code {
                span.record("code", code.as_str());
            }
            "failed"
        }
    };
    span.record("outcome", word);
}

pub(crate) fn created(events: usize) {
    counter!(EVENTS_CREATED).increment(events as u64);
}

pub(crate) fn unheard(events: usize) {
    counter!(EVENTS_UNHEARD).increment(events as u64);
}

/// What one lane counts: found once, since finding them takes longer than counting.
pub(crate) struct LaneFigures {
    sent: Counter,
    failed: Counter,
    dead: Counter,
    consumed: Counter,
    idempotent: Counter,
    consumer_failed: Counter,
    seconds: Histogram,
}

impl LaneFigures {
    pub(crate) fn new(consumer: &str) -> Self {
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

    pub(crate) fn failed(&self) {
        self.failed.increment(1);
        self.consumer_failed.increment(1);
    }

    pub(crate) fn dead(&self) {
        self.dead.increment(1);
    }

    pub(crate) fn idempotent(&self) {
        self.idempotent.increment(1);
    }

    /// By this process's clock and the writer's: a figure, nothing hangs on it.
    pub(crate) fn consumed(&self, envelope: &Envelope) {
        let due = envelope.deliver_at.unwrap_or(envelope.occurred_at).max(envelope.occurred_at);
        self.consumed.increment(1);
        self.seconds.record((SystemClock.now() - due).as_seconds_f64().max(0.0));
    }
}

pub(crate) fn lease_lost(deliveries: usize) {
    counter!(LEASE_LOST).increment(deliveries as u64);
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

pub(crate) fn lag(consumer: &str, deliveries: u64) {
    gauge!(CONSUMER_LAG, "consumer" => consumer.to_owned()).set(deliveries as f64);
}
