//! What the rows of events say about the promises. Pure: the loop reads, these functions decide.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

use super::{PromiseFinding, PromiseName};
use crate::entry::DeliveryStatus;
use crate::status::{ConsumerState, EventStatus, Record};
use crate::store::{Delivery, Repeat, Routing};
use crate::subscription::{EVERY_TOPIC, RABBITMQ, StoredSubscription};

/// How long after its end a lease may be found again by another worker.
const TAKEN_BACK: time::Duration = time::Duration::seconds(30);
/// No worker asks for a longer lease, and no retry waits longer.
const PLANNED: time::Duration = time::Duration::days(2);
/// Keys that are remembered from page to page.
const REMEMBERED: usize = 20_000;

/// An event for which a promise does not hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) promise: PromiseName,
    pub(super) event_id: String,
    pub(super) consumer: String,
    pub(super) what: String,
}

impl Finding {
    pub(super) fn new(promise: PromiseName, record: &Record, consumer: &str, what: String) -> Self {
        Self { promise, event_id: record.envelope.event_id.to_string(), consumer: consumer.into(), what }
    }

    pub(super) fn shown(&self, found_at: OffsetDateTime) -> PromiseFinding {
        let Self { event_id, consumer, what, .. } = self.clone();
        PromiseFinding { what, event_id: Some(event_id), consumer_id: Some(consumer), found_at }
    }
}

/// Who is or was subscribed, by topic, without lanes that keep no history: an event leaves no trace there.
#[derive(Debug, Default)]
pub(super) struct Audience(BTreeMap<String, BTreeSet<String>>);

impl Audience {
    pub(super) fn new(
        subscriptions: impl Iterator<Item = StoredSubscription>,
        without_history: &BTreeSet<String>,
    ) -> Self {
        let mut by_topic: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for stored in subscriptions {
            let one = stored.subscription;
            if one.consumer != RABBITMQ && !without_history.contains(&one.consumer) {
                by_topic.entry(one.topic).or_default().insert(one.consumer);
            }
        }
        Self(by_topic)
    }

    fn of(&self, topic: &str) -> impl Iterator<Item = &str> {
        let of = |topic: &str| self.0.get(topic).into_iter().flatten().map(String::as_str);
        of(topic).chain(of(EVERY_TOPIC))
    }

    /// Subscribed consumers of whom an event has no row. They may have been subscribed later, or their delivery is lost.
    pub(super) fn without_rows<'a>(&'a self, record: &Record) -> Vec<&'a str> {
        if record.routing != Routing::Routed || record.standing().status == EventStatus::Expired {
            return Vec::new();
        }
        let known = record.consumers();
        self.of(&record.envelope.topic).filter(|consumer| !known.contains_key(consumer)).collect()
    }
}

/// How many deliveries are owed, and what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Owed {
    pub(super) events: u64,
    pub(super) done: u64,
    pub(super) waiting: u64,
    pub(super) dead: u64,
    /// For how many seconds the oldest lease has been held.
    pub(super) held_seconds: u64,
}

impl Owed {
    pub(super) fn add(&mut self, record: &Record, now: OffsetDateTime) {
        self.events += 1;
        for state in record.consumers().into_values() {
            match state {
                ConsumerState::Ok => self.done += 1,
                ConsumerState::Failed => self.dead += 1,
                ConsumerState::Waiting | ConsumerState::Retrying => self.waiting += 1,
            }
        }
        for held in record.deliveries.iter().filter_map(|delivery| delivery.lock_time) {
            self.held_seconds = self.held_seconds.max(u64::try_from((now - held).whole_seconds()).unwrap_or_default());
        }
    }
}

/// Consumers that have more successes than one. Each redrive and each repeat that the inbox has stopped explains one of them.
pub(super) fn successes_to_explain(record: &Record) -> Vec<(&str, u32)> {
    let mut successes: BTreeMap<&str, u32> = BTreeMap::new();
    for one in record.consumptions.iter().filter(|one| one.success == Some(true) && !is_remote(record, &one.consumer)) {
        *successes.entry(&one.consumer).or_default() += 1;
    }
    successes.into_iter().filter(|(_, successes)| *successes > 1 + record.kept.redrives).collect()
}

pub(super) fn twice(record: &Record, repeats: &[Repeat]) -> Vec<Finding> {
    let event_id = record.envelope.event_id.as_str();
    let stopped = |consumer: &str| {
        let of = repeats.iter().find(|one| one.consumer == consumer && one.event_id == event_id);
        of.map_or(0, |one| one.repeats)
    };
    let unexplained = successes_to_explain(record)
        .into_iter()
        .filter(|(consumer, successes)| *successes > 1 + record.kept.redrives + stopped(consumer));
    unexplained
        .map(|(consumer, successes)| {
            let what =
                format!("{consumer} has {successes} successes of {event_id}, and the inbox stopped none of them");
            Finding::new(PromiseName::Twice, record, consumer, what)
        })
        .collect()
}

/// Deliveries that no worker has and none will take.
pub(super) fn stuck(record: &Record, now: OffsetDateTime, paused: &BTreeSet<String>) -> Vec<Finding> {
    let event_id = &record.envelope.event_id;
    let live = record.deliveries.iter().filter(|one| one.status != DeliveryStatus::Dead && !paused.contains(&one.lane));
    live.filter_map(|delivery| {
        let what = match delivery.lock_until {
            Some(until) if until < now - TAKEN_BACK => "its lease has ended, and no worker has taken it again",
            Some(until) if until > now + PLANNED => "it is leased for days",
            Some(_) => return None,
            None if is_far(record, delivery, now) => "it is due in days, although no retry and no delay is so long",
            None => return None,
        };
        let consumer = delivery.consumer().unwrap_or(&delivery.lane);
        Some(Finding::new(PromiseName::Stuck, record, consumer, format!("{event_id} waits for {consumer}: {what}")))
    })
    .collect()
}

fn is_far(record: &Record, delivery: &Delivery, now: OffsetDateTime) -> bool {
    let planned = record.envelope.deliver_at.map_or(now, |at| at.max(now));
    delivery.due_at > planned + PLANNED
}

/// What later events of each key and consumer did, while the events are read from the newest to the oldest.
#[derive(Debug, Default)]
pub(super) struct Later(BTreeMap<(String, String), (OffsetDateTime, String)>);

impl Later {
    /// Compares an event with the later ones of its key, and remembers it.
    pub(super) fn compare(&mut self, record: &Record) -> Vec<Finding> {
        let Some(key) = &record.envelope.key else { return Vec::new() };
        // What was given up and redriven comes late, and so does what was delayed.
        let may_be_late = record.kept.redrives > 0 || record.envelope.deliver_at.is_some();
        let mut found = Vec::new();
        for (consumer, state) in record.consumers() {
            if is_remote(record, consumer) {
                continue;
            }
            let of_consumer = || record.consumptions.iter().filter(|one| one.consumer == consumer);
            let was_given_up = of_consumer().any(|one| one.success == Some(false) && !one.will_retry);
            let done = of_consumer().filter(|one| one.success == Some(true)).filter_map(|one| one.consumed_at).min();
            let place = (consumer.to_owned(), key.clone());
            if let Some((at, later)) = self.0.get(&place).filter(|_| !may_be_late && !was_given_up) {
                let is_late = match (state, done) {
                    (ConsumerState::Ok, Some(done)) => done > *at,
                    (ConsumerState::Waiting | ConsumerState::Retrying, _) => true,
                    _ => false,
                };
                if is_late {
                    let event_id = &record.envelope.event_id;
                    let what = format!("{consumer} had {later} before {event_id}, which is earlier in the key {key}");
                    found.push(Finding::new(PromiseName::Order, record, consumer, what));
                }
            }
            if let Some(done) = done
                && (self.0.len() < REMEMBERED || self.0.contains_key(&place))
            {
                let first = self.0.entry(place).or_insert_with(|| (done, record.envelope.event_id.to_string()));
                if done < first.0 {
                    *first = (done, record.envelope.event_id.to_string());
                }
            }
        }
        found
    }
}

/// Whether a consumer is reached by other means than a lane, so that it reports when and as often as it likes.
fn is_remote(record: &Record, consumer: &str) -> bool {
    record.consumptions.iter().any(|one| one.consumer == consumer && one.attempt == 0)
}
