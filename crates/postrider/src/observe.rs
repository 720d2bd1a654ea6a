//! Every name by which Postrider is observed: metrics, log fields, messages. Nobody else writes one.
//!
//! Metrics go to whatever recorder the program has installed ([`metrics`]); without one they cost nothing. Labels are
//! consumers only: an id or a key as a label would grow without end.

use std::time::Duration;

use metrics::{counter, gauge, histogram};

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
/// From the event's commit to its effect.
pub const DELIVERY_SECONDS: &str = "postrider_delivery_seconds";
/// Results that came too late to count.
pub const LEASE_LOST: &str = "postrider_relay_lease_lost_total";
/// Deliveries given back because their lease was about to run out before they could be tried.
pub const SHED: &str = "postrider_relay_shed_total";
/// Times that the store did not answer.
pub const STORE_UNAVAILABLE: &str = "postrider_store_unavailable_total";
/// Alerts that could not be passed on.
pub const ALERTS_FAILED: &str = "postrider_alerts_failed_total";

/// What a log line about an enqueued event says.
pub(crate) const ENQUEUED: &str = "Outbox enqueued";
/// What a log line about an event that reached its lane's end says.
pub(crate) const PUBLISHED: &str = "Outbox published";
/// What a log line about an effect says; a duplicate has none.
pub(crate) const CONSUMED_LINE: &str = "Consumed";

pub(crate) fn created(events: usize) {
    counter!(EVENTS_CREATED).increment(events as u64);
}

pub(crate) fn unheard(events: usize) {
    counter!(EVENTS_UNHEARD).increment(events as u64);
}

pub(crate) fn sent(deliveries: usize) {
    counter!(EVENTS_SENT).increment(deliveries as u64);
}

pub(crate) fn failed(consumer: &str) {
    counter!(EVENTS_FAILED).increment(1);
    counter!(CONSUMER_FAILED, "consumer" => consumer.to_owned()).increment(1);
}

pub(crate) fn dead() {
    counter!(EVENTS_DEAD).increment(1);
}

pub(crate) fn consumed(consumer: &str, events: usize) {
    counter!(CONSUMED, "consumer" => consumer.to_owned()).increment(events as u64);
}

pub(crate) fn idempotent(consumer: &str) {
    counter!(IDEMPOTENT, "consumer" => consumer.to_owned()).increment(1);
}

#[allow(dead_code, reason = "the claim does not tell yet since when an event waits")]
pub(crate) fn delivered_after(consumer: &str, waits: &[Duration]) {
    if waits.is_empty() {
        return;
    }
    let histogram = histogram!(DELIVERY_SECONDS, "consumer" => consumer.to_owned());
    for wait in waits {
        histogram.record(wait.as_secs_f64());
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
