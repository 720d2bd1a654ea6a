//! What a redrive writes.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::operation::Watched;
use crate::entry::DeliveryStatus;
use crate::redrive::{RedriveRules, Refusal, Target, decide, unless_held};
use crate::status::{ConsumerState, Record, is_untried_since};
use crate::store::Redriven;
use crate::subscription::{RABBITMQ, StoredSubscription};

/// A redrive request.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    /// Only this consumer; `None` means all unfinished ones.
    pub(crate) consumer: Option<&'a str>,
    /// Of the unfinished ones, only those that have failed; of these only the named ones, if any is named.
    pub(crate) only_failed: Option<BTreeSet<&'a str>>,
    /// The rules that each event must meet.
    pub(crate) rules: &'a RedriveRules,
    /// All current subscriptions.
    pub(crate) subscriptions: &'a [StoredSubscription],
}

impl Request<'_> {
    /// The targets that the request is about.
    fn narrow(&self, record: &Record, targets: Vec<Target>) -> Result<Vec<Target>, Refusal> {
        let (None, Some(named)) = (self.consumer, &self.only_failed) else { return Ok(targets) };
        let failed: BTreeSet<&str> = record
            .consumers()
            .into_iter()
            .filter(|(_, state)| matches!(state, ConsumerState::Failed | ConsumerState::Retrying))
            .map(|(consumer, _)| consumer)
            .filter(|consumer| named.is_empty() || named.contains(consumer))
            .collect();
        let is_failed = |target: &Target| {
            // A delivery to the broker is for everyone behind it.
            let is_shared = target.target.is_none() && target.lane == RABBITMQ;
            is_shared || failed.contains(target.target.as_deref().unwrap_or(&target.lane))
        };
        let targets: Vec<Target> = targets.into_iter().filter(is_failed).collect();
        if targets.is_empty() { Err(Refusal::NotFailed) } else { Ok(targets) }
    }
}

/// A delivery to make due now, or to insert if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueDelivery {
    /// The event.
    pub(crate) seq: i64,
    /// The lane.
    pub(crate) lane: String,
    /// The one consumer behind a broker's lane that it is for.
    pub(crate) target: Option<String>,
    /// The event's shard.
    pub(crate) shard: u8,
}

/// A consumer that is expected to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpectedConsumer {
    /// The event.
    pub(crate) seq: i64,
    /// The consumer.
    pub(crate) consumer: String,
}

/// What to write for the events that may be redriven, in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The events to redrive, in order. Each counts one more redrive and is marked for the roll-up.
    pub(crate) seqs: Vec<i64>,
    /// Deliveries to make due.
    pub(crate) deliveries: Vec<DueDelivery>,
    /// Consumers that were not expected before.
    pub(crate) expected: Vec<ExpectedConsumer>,
    /// Lane, key and event: releases later deliveries of the key that are parked behind this event.
    pub(crate) keys: Vec<(String, String, i64)>,
    /// The answer for each requested event that still exists; if it is redriven, whose attempts decide what comes of it.
    pub(crate) answers: Vec<(i64, std::result::Result<Watched, Refusal>)>,
}

impl Plan {
    /// Decides on the rows of locked events.
    pub(crate) fn of(records: &[Record], request: &Request<'_>, now: OffsetDateTime) -> Self {
        let mut plan = Self::default();
        for record in records {
            let decided = decide(record, request.consumer, request.subscriptions, request.rules, now);
            let decided = decided.and_then(|targets| request.narrow(record, targets));
            let decided = decided.and_then(|targets| unless_held(record, targets, now));
            if let Ok(targets) = &decided
                && !is_waiting(record, targets)
            {
                plan.seqs.push(record.sequence);
                for target in targets {
                    plan.add(record, &target.lane, target.target.as_deref());
                    if let (true, Some(consumer)) = (target.newcomer, target.target.clone()) {
                        plan.expected.push(ExpectedConsumer { seq: record.sequence, consumer });
                    }
                }
            }
            plan.answers.push((record.sequence, decided.map(|targets| Watched::of(record, &targets))));
        }
        plan
    }

    fn add(&mut self, record: &Record, lane: &str, target: Option<&str>) {
        let (seq, shard) = (record.sequence, record.envelope.shard());
        self.deliveries.push(DueDelivery { seq, lane: lane.into(), target: target.map(Into::into), shard });
        self.keys.extend(record.envelope.key.clone().map(|key| (lane.into(), key, seq)));
    }
}

/// D.8: whether the last redrive made all of them due and none has been tried since. Another redrive changes nothing, and does not
/// count.
fn is_waiting(record: &Record, targets: &[Target]) -> bool {
    let Some(redriven_at) = record.kept.redriven_at else { return false };
    targets.iter().all(|target| {
        let due = record.deliveries.iter().find(|one| one.lane == target.lane && one.target == target.target);
        due.is_some_and(|due| due.status == DeliveryStatus::New && is_untried_since(due, redriven_at))
    })
}

/// Decides on a redrive of one lane, which checks only the lease and the expiry. The plan is empty if it is refused.
pub(crate) fn redrive_lane(record: &Record, lane: &str, target: Option<&str>, now: OffsetDateTime) -> (Redriven, Plan) {
    let known = record.deliveries.iter().find(|one| one.lane == lane && one.target.as_deref() == target);
    let is_leased = known.is_some_and(|one| one.lock_until.is_some_and(|until| until > now));
    if record.expired {
        return (Redriven::Expired, Plan::default());
    }
    if is_leased {
        return (Redriven::InProgress, Plan::default());
    }
    let mut plan = Plan { seqs: vec![record.sequence], ..Plan::default() };
    plan.add(record, lane, target);
    (if known.is_some() { Redriven::Due } else { Redriven::Made }, plan)
}
