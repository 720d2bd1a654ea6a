//! What a redrive writes.

use time::OffsetDateTime;

use crate::entry::DeliveryStatus;
use crate::redrive::{RedriveRules, Refusal, Target, decide};
use crate::status::{Record, is_untried_since};
use crate::store::Redriven;
use crate::subscription::StoredSubscription;

/// A redrive request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// Only this consumer; `None` means all unfinished ones.
    pub(crate) consumer: Option<&'a str>,
    /// The rules that each event must meet.
    pub(crate) rules: &'a RedriveRules,
    /// All current subscriptions.
    pub(crate) subscriptions: &'a [StoredSubscription],
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
    /// The answer for each requested event that still exists.
    pub(crate) answers: Vec<(i64, std::result::Result<(), Refusal>)>,
}

impl Plan {
    /// Decides on the rows of locked events.
    pub(crate) fn of(records: &[Record], request: &Request<'_>, now: OffsetDateTime) -> Self {
        let mut plan = Self::default();
        for record in records {
            let decided = decide(record, request.consumer, request.subscriptions, request.rules, now);
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
            plan.answers.push((record.sequence, decided.map(drop)));
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
