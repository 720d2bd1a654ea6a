//! Whether an event may be redriven, and to which lanes. Pure: a store reads the rows under lock, calls these
//! functions, and writes the result. The status of lists is never used.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::entry::DeliveryStatus;
use crate::status::{ConsumerState, EventStatus, Record, Standing};
use crate::store::Delivery;
use crate::subscription::{EVERY_TOPIC, RABBITMQ, StoredSubscription, Subscription, Via};

/// The rules of a redrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedriveRules {
    /// How often one event may be redriven.
    pub max_count: u32,
    /// How long ago an event without a result must have been sent.
    pub sent_older_than: Duration,
    /// The maximum age of an event. After that its inbox row may be pruned, and its effect would happen again.
    pub horizon: Duration,
}

impl Default for RedriveRules {
    /// Ten times, ten minutes after it was sent without a result, within seven days.
    fn default() -> Self {
        Self { max_count: 10, sent_older_than: Duration::from_secs(600), horizon: Duration::from_secs(7 * 86_400) }
    }
}

/// Why an event was not redriven, expired or discarded, a consumer not renamed, or a subscription not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such event.
    #[error("there is no such event")]
    UnknownEvent,
    /// All consumers, or the named one, have consumed it.
    #[error("it has been consumed: its effect has happened")]
    Consumed,
    /// Past its expiry.
    #[error("it has expired")]
    Expired,
    /// It was redriven too often.
    #[error("it has been redriven {0} times, which is the most (redrive.max-count)")]
    TooMany(u32),
    /// It is too old.
    #[error("it was stored longer than {} days ago (redrive.horizon-days): what its consumers remember of it may be gone", .0.as_secs() / 86_400)]
    TooOld(Duration),
    /// It will be delivered without a redrive.
    #[error("it has not been sent yet: it is delivered by itself")]
    NotSent,
    /// A result may still arrive.
    #[error("it was sent less than {} s ago (redrive.sent-older-than-seconds): an answer may still come", .0.as_secs())]
    SentRecently(Duration),
    /// A worker holds a lease on it.
    #[error("it is being worked on at this moment")]
    InProgress,
    /// No consumer of this name subscribes to its topic.
    #[error("no subscription to its topic names this consumer")]
    UnknownConsumer,
    /// No lane of this store delivers to the consumer.
    #[error("its consumers get their events by their own means: there is nothing to send")]
    External,
    /// None of the consumers that are asked for has failed.
    #[error("none of its consumers has failed: there is nothing to redrive")]
    NotFailed,
    /// No delivery of the event to this consumer exists.
    #[error("none of its deliveries is for this consumer: there is nothing to discard")]
    NotWaiting,
    /// Nothing has this consumer's name.
    #[error(
        "there is no consumer {0}: no subscription, waiting delivery or inbox row has this name; check its spelling"
    )]
    NoSuchConsumer(String),
    /// Another consumer has the new name.
    #[error(
        "the name {0} is in use: choose another one, and rename before a program with the new name starts. If it has started, \
         let a program with the old name finish its deliveries, and then remove the old subscription"
    )]
    NameInUse(String),
    /// The consumer reads a queue, which has its name and cannot be renamed.
    #[error(
        "{0} reads the broker's queue postrider.{0}, which keeps its name: subscribe the new name, remove the old \
         subscription, and stop the old program when its queue is empty"
    )]
    BrokerQueue(String),
    /// The consumer has other subscriptions by another `via`.
    #[error(
        "{consumer} gets its events by `{via}` ({topics}), and a consumer has one `via`: change all its topics at once \
         (`allTopics`), or use another consumer"
    )]
    SecondVia {
        /// The consumer.
        consumer: String,
        /// The `via` of its other subscriptions.
        via: &'static str,
        /// Their topics.
        topics: String,
    },
    /// Deliveries wait for the subscription that is to be removed.
    #[error(
        "{0} deliveries of this subscription wait: let them be delivered (`waiting=deliver`) or end them \
         (`waiting=discard`)"
    )]
    DeliveriesWait(u64),
    /// The subscription is not the one that the caller has read.
    #[error("the subscription was changed or removed meanwhile: read it again, and decide again")]
    Stale,
}

impl Refusal {
    /// The code for programs.
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
            Self::NotFailed => "notFailed",
            Self::NotWaiting => "notWaiting",
            Self::NoSuchConsumer(_) => "noSuchConsumer",
            Self::NameInUse(_) => "nameInUse",
            Self::BrokerQueue(_) => "brokerQueue",
            Self::SecondVia { .. } => "secondVia",
            Self::DeliveriesWait(_) => "deliveriesWait",
            Self::Stale => "stale",
        }
    }
}

/// The lane of a redriven event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) lane: String,
    /// The one consumer behind the broker.
    pub(crate) target: Option<String>,
    /// A remote consumer that was not subscribed when the event was written. It is expected to report from now on.
    pub(crate) newcomer: bool,
}

/// Decides whether an event may be redriven, to one consumer or to all unfinished ones, and to which lanes. What a worker holds is
/// left to [`unless_held`], because the caller may not want all of them.
pub(crate) fn decide(
    record: &Record,
    consumer: Option<&str>,
    subscriptions: &[StoredSubscription],
    rules: &RedriveRules,
    now: OffsetDateTime,
) -> Result<Vec<Target>, Refusal> {
    let standing = record.standing();
    if standing.status == EventStatus::Expired || record.expired {
        // Consumed takes precedence over expired. Neither is sent again.
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
    Ok(targets.into_iter().collect())
}

/// Refuses a redrive to what a worker holds.
pub(crate) fn unless_held(record: &Record, targets: Vec<Target>, now: OffsetDateTime) -> Result<Vec<Target>, Refusal> {
    let is_held = |target: &Target| {
        record.deliveries.iter().any(|one| {
            one.lane == target.lane
                && one.target == target.target
                && one.status == DeliveryStatus::Processing
                && one.lock_until.is_some_and(|until| until > now)
        })
    };
    if targets.iter().any(is_held) { Err(Refusal::InProgress) } else { Ok(targets) }
}

/// One consumer by name, also one that subscribed later: that is how it gets old events.
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
            let target = newcomer.then(|| consumer.to_owned());
            Ok(Target { lane, target, newcomer })
        }
    }
}

/// Every unfinished consumer.
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
    if record.deliveries.iter().any(|one| one.lane == RABBITMQ && one.target.is_none()) {
        // The broker has not received it: its delivery reaches all consumers behind the broker.
        targets.retain(|target| target.lane != RABBITMQ);
        targets.insert(Target { lane: RABBITMQ.into(), target: None, newcomer: false });
    }
    if targets.is_empty() { Err(Refusal::External) } else { Ok(targets) }
}

/// D.8: the table of rules.
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

/// The lane of an expected consumer's delivery. Returns `None` if no lane of this store delivers to it.
fn target(record: &Record, consumer: &str, subscriptions: &[&Subscription]) -> Option<Target> {
    let to = |lane: &str, target: Option<&str>| Target {
        lane: lane.into(),
        target: target.map(Into::into),
        newcomer: false,
    };
    let waiting = record.deliveries.iter().find(|one| match one.lane.as_str() {
        RABBITMQ => one.target.as_deref() == Some(consumer),
        lane => lane == consumer,
    });
    if let Some(one) = waiting {
        return Some(to(&one.lane, one.target.as_deref()));
    }
    let remote = record.consumptions.iter().any(|one| one.consumer == consumer && one.attempt == 0);
    // The present `via` counts: it may have changed since the event was written.
    match subscriptions.iter().find(|s| s.consumer == consumer).map(|s| s.via) {
        Some(Via::External) => None,
        Some(Via::RabbitMq) => Some(Target { newcomer: !remote, ..to(RABBITMQ, Some(consumer)) }),
        Some(Via::Local | Via::Pull | Via::Webhook) => Some(to(consumer, None)),
        None if remote => Some(to(RABBITMQ, Some(consumer))),
        None => Some(to(consumer, None)),
    }
}

/// The delivery that a discard ends.
pub(crate) fn discardable<'r>(record: &'r Record, consumer: &str) -> Result<&'r Delivery, Refusal> {
    let waiting = record.deliveries.iter().find(|one| one.consumer() == Some(consumer));
    waiting.ok_or_else(|| match record.consumers().get(consumer) {
        Some(ConsumerState::Ok) => Refusal::Consumed,
        _ => Refusal::NotWaiting,
    })
}
