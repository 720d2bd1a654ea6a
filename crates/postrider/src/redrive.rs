//! Which event may be redriven, and where it goes then. Pure: a store reads the rows under lock, asks here, and writes; the
//! status that lists go by is never asked.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::entry::DeliveryStatus;
use crate::status::{ConsumerState, EventStatus, Record, Standing};
use crate::subscription::{EVERY_TOPIC, RABBITMQ, StoredSubscription, Subscription, Via};

/// What a redrive is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedriveRules {
    /// How often one event may be redriven.
    pub max_count: u32,
    /// How long ago an event that nobody has answered must have been sent.
    pub sent_older_than: Duration,
    /// How old an event may be: past that its effect may have been forgotten, and it would happen again.
    pub horizon: Duration,
}

impl Default for RedriveRules {
    /// Ten times, after ten minutes of silence, within seven days.
    fn default() -> Self {
        Self { max_count: 10, sent_older_than: Duration::from_secs(600), horizon: Duration::from_secs(7 * 86_400) }
    }
}

/// Why an event was not redriven, or not expired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such event.
    #[error("there is no such event")]
    UnknownEvent,
    /// Everybody, or the consumer that was named, has had it.
    #[error("it has been consumed: its effect has happened")]
    Consumed,
    /// Past its expiry.
    #[error("it has expired")]
    Expired,
    /// Too often already.
    #[error("it has been redriven {0} times, which is the most (redrive.max-count)")]
    TooMany(u32),
    /// Too long ago.
    #[error("it was stored longer than {} days ago (redrive.horizon-days): what its consumers remember of it may be gone", .0.as_secs() / 86_400)]
    TooOld(Duration),
    /// It will be delivered without anybody's help.
    #[error("it has not been sent yet: it is delivered by itself")]
    NotSent,
    /// An answer may still come.
    #[error("it was sent less than {} s ago (redrive.sent-older-than-seconds): an answer may still come", .0.as_secs())]
    SentRecently(Duration),
    /// Somebody holds a lease on it.
    #[error("it is being worked on at this moment")]
    InProgress,
    /// Nobody of this name hears its topic.
    #[error("no subscription to its topic names this consumer")]
    UnknownConsumer,
    /// Nothing of ours delivers to it.
    #[error("its consumers get their events by their own means: there is nothing to send")]
    External,
}

impl Refusal {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownEvent => "unknownEvent",
            Self::Consumed => "consumed",
            Self::Expired => "expired",
            Self::TooMany(_) => "redriveLimit",
            Self::TooOld(_) => "redriveHorizon",
            Self::NotSent => "notSent",
            Self::SentRecently(_) => "sentRecently",
            Self::InProgress => "inProgress",
            Self::UnknownConsumer => "unknownConsumer",
            Self::External => "external",
        }
    }
}

/// Where a redriven event goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) lane: String,
    /// One consumer of the broker, or empty.
    pub(crate) target: String,
    /// It was not there when the event was written, and reports from elsewhere: from now on that is expected.
    pub(crate) newcomer: bool,
}

/// Whether an event may be redriven, to one consumer or to all that are not done, and where it goes.
pub(crate) fn decide(
    record: &Record,
    consumer: Option<&str>,
    subscriptions: &[StoredSubscription],
    rules: &RedriveRules,
    now: OffsetDateTime,
) -> Result<Vec<Target>, Refusal> {
    let standing = record.standing();
    if standing.status == EventStatus::Expired || record.expired {
        // Consumed beats expired, and neither is sent again.
        return Err(if standing.status == EventStatus::Consumed { Refusal::Consumed } else { Refusal::Expired });
    }
    if standing.redrives >= rules.max_count {
        return Err(Refusal::TooMany(rules.max_count));
    }
    if now - record.created_at > rules.horizon {
        return Err(Refusal::TooOld(rules.horizon));
    }
    let hears = |s: &&Subscription| s.topic == record.envelope.topic || s.topic == EVERY_TOPIC;
    let subscriptions: Vec<_> = subscriptions.iter().map(|stored| &stored.subscription).filter(hears).collect();
    let targets = match consumer {
        Some(consumer) => BTreeSet::from([one(record, consumer, &standing, &subscriptions, rules, now)?]),
        None => unfinished(record, &standing, &subscriptions, rules, now)?,
    };
    let is_held = |target: &Target| {
        record.deliveries.iter().any(|one| {
            one.lane == target.lane
                && one.target == target.target
                && one.status == DeliveryStatus::Processing
                && one.lock_until.is_some_and(|until| until > now)
        })
    };
    if targets.iter().any(is_held) { Err(Refusal::InProgress) } else { Ok(targets.into_iter().collect()) }
}

/// One consumer by name, also one that came later: that is how it gets old events.
fn one(
    record: &Record,
    consumer: &str,
    standing: &Standing,
    subscriptions: &[&Subscription],
    rules: &RedriveRules,
    now: OffsetDateTime,
) -> Result<Target, Refusal> {
    match record.consumers().get(consumer) {
        Some(ConsumerState::Ok) => Err(Refusal::Consumed),
        Some(_) => {
            allowed(standing, rules, now)?;
            target(record, consumer, subscriptions).ok_or(Refusal::External)
        }
        None => {
            let known = subscriptions.iter().find(|s| s.consumer == consumer).ok_or(Refusal::UnknownConsumer)?;
            let lane = known.lane().ok_or(Refusal::External)?.to_owned();
            let newcomer = known.is_expected_remotely();
            let target = if newcomer { consumer.to_owned() } else { String::new() };
            Ok(Target { lane, target, newcomer })
        }
    }
}

/// Every consumer that is not done.
fn unfinished(
    record: &Record,
    standing: &Standing,
    subscriptions: &[&Subscription],
    rules: &RedriveRules,
    now: OffsetDateTime,
) -> Result<BTreeSet<Target>, Refusal> {
    allowed(standing, rules, now)?;
    let open = record.consumers().into_iter().filter(|(_, state)| *state != ConsumerState::Ok);
    let mut targets: BTreeSet<Target> =
        open.filter_map(|(consumer, _)| target(record, consumer, subscriptions)).collect();
    if record.deliveries.iter().any(|one| one.lane == RABBITMQ && one.target.is_empty()) {
        // The broker itself has not had it: once it has, so have all of its consumers.
        targets.retain(|target| target.lane != RABBITMQ);
        targets.insert(Target { lane: RABBITMQ.into(), target: String::new(), newcomer: false });
    }
    if targets.is_empty() { Err(Refusal::External) } else { Ok(targets) }
}

/// D.8, as the table has it.
fn allowed(standing: &Standing, rules: &RedriveRules, now: OffsetDateTime) -> Result<(), Refusal> {
    match standing.status {
        EventStatus::Failed | EventStatus::Partial | EventStatus::Retrying => Ok(()),
        EventStatus::Sent if standing.last_sent_at.is_none_or(|at| now - at >= rules.sent_older_than) => Ok(()),
        EventStatus::Sent => Err(Refusal::SentRecently(rules.sent_older_than)),
        EventStatus::Pending => Err(Refusal::NotSent),
        EventStatus::Consumed => Err(Refusal::Consumed),
        EventStatus::Expired => Err(Refusal::Expired),
    }
}

/// Where an expected consumer's delivery is, was or would be. None: it is none of ours.
fn target(record: &Record, consumer: &str, subscriptions: &[&Subscription]) -> Option<Target> {
    let to = |lane: &str, target: &str| Target { lane: lane.into(), target: target.into(), newcomer: false };
    let waiting = record.deliveries.iter().find(|one| match one.lane.as_str() {
        RABBITMQ => one.target == consumer,
        lane => lane == consumer,
    });
    if let Some(one) = waiting {
        return Some(to(&one.lane, &one.target));
    }
    let remote = record.consumptions.iter().any(|one| one.consumer == consumer && one.attempt == 0);
    let external = subscriptions.iter().any(|s| s.consumer == consumer && s.via == Via::External);
    match (remote, external) {
        (false, _) => Some(to(consumer, "")),
        (true, false) => Some(to(RABBITMQ, consumer)),
        (true, true) => None,
    }
}
