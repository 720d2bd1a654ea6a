//! Whether a subscription may be changed or removed, and what becomes of the deliveries that wait.
//!
//! What waits for a consumer with its own lane is the rows in that lane. What waits for one behind the broker is the rows
//! of the broker's lane: one for all of them, or one with the consumer as its target. A remote consumer also owes a report
//! for each event with its attempt 0.

use crate::entry::{DISCARDED, DeliveryStatus};
use crate::redrive::Refusal;
use crate::status::{ConsumerState, Record};
use crate::store::decide::redrive::{DueDelivery, ExpectedConsumer};
use crate::store::{Delivery, SecretChange, SubscriptionChange};
use crate::subscription::{EVERY_TOPIC, RABBITMQ, StoredSubscription, Subscription, Via};

/// The code of the attempt that keeps the end of a dead delivery whose consumer is served elsewhere now.
const DEAD: &str = "dead";

/// Decides which subscriptions a change writes. `rows` are all of its consumer, also removed ones.
pub(crate) fn decide_change(
    change: &SubscriptionChange,
    rows: &[StoredSubscription],
) -> Result<Vec<Subscription>, Refusal> {
    let wanted = &change.subscription;
    check_version(&wanted.topic, change.if_version.as_deref(), rows)?;
    let others = rows.iter().filter(|row| !row.removed && row.subscription.topic != wanted.topic);
    let others: Vec<_> = others.map(|row| &row.subscription).filter(|other| other.via != wanted.via).collect();
    if let (Some(first), false) = (others.first(), change.all_topics) {
        let topics: Vec<_> = others.iter().map(|other| other.topic.as_str()).collect();
        let (consumer, via) = (wanted.consumer.clone(), first.via.as_str());
        return Err(Refusal::SecondVia { consumer, via, topics: topics.join(", ") });
    }
    let moved = others.into_iter().map(|other| other.by(wanted.via, wanted.endpoint.clone()));
    Ok([wanted.clone()].into_iter().chain(moved).collect())
}

/// What becomes of the secret of each topic that a change concerns.
pub(crate) fn decide_secrets<'c>(
    change: &'c SubscriptionChange,
    rows: &'c [StoredSubscription],
) -> Vec<(&'c str, &'c SecretChange)> {
    let wanted = &change.subscription;
    let present = rows.iter().filter(|row| !row.removed).map(|row| row.subscription.topic.as_str());
    let (own, others): (Vec<_>, Vec<_>) = present.partition(|topic| *topic == wanted.topic);
    let of = |is_known: bool| match &change.secret {
        SecretChange::Keep if !is_known || wanted.via != Via::Webhook => &SecretChange::Remove,
        secret => secret,
    };
    let others = others.into_iter().filter(|_| change.all_topics).map(|topic| (topic, of(true)));
    [(wanted.topic.as_str(), of(!own.is_empty()))].into_iter().chain(others).collect()
}

/// Refuses a change of a subscription that is not the one that the caller has read. `*` is any that exists.
pub(crate) fn check_version(
    topic: &str,
    versions: Option<&[String]>,
    rows: &[StoredSubscription],
) -> Result<(), Refusal> {
    let Some(versions) = versions else { return Ok(()) };
    let known = rows.iter().find(|row| !row.removed && row.subscription.topic == topic);
    let known = known.map(|row| row.subscription.version());
    let is_known = known.is_some_and(|known| versions.iter().any(|version| *version == known || version == "*"));
    if is_known { Ok(()) } else { Err(Refusal::Stale) }
}

/// What a consumer's new subscription with a `via` is registered as: a consumer has one, and an operator may have changed
/// it.
pub(crate) fn registered_as(subscription: &Subscription, rows: &[StoredSubscription]) -> Subscription {
    match rows.iter().find(|row| !row.removed && row.subscription.via != subscription.via) {
        Some(other) => subscription.by(other.subscription.via, other.subscription.endpoint.clone()),
        None => subscription.clone(),
    }
}

/// Whether a consumer got its events by its own means: by its subscriptions, or by the removed ones if it has no other.
pub(crate) fn was_external(rows: &[StoredSubscription]) -> bool {
    let external = |row: &StoredSubscription| row.subscription.via == Via::External;
    match rows.iter().find(|row| !row.removed) {
        Some(present) => external(present),
        None => rows.iter().any(external),
    }
}

/// What to write so that everything that waits is served by the present subscriptions, or ended.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Deliveries to delete.
    pub(crate) taken: Vec<DueDelivery>,
    /// Deliveries to insert, due when their events are.
    pub(crate) inserted: Vec<DueDelivery>,
    /// Consumers that are expected to report from now on.
    pub(crate) expected: Vec<ExpectedConsumer>,
    /// Failed attempts to append.
    pub(crate) ended: Vec<Ended>,
    /// Lane, key and event: releases later deliveries of the key that are parked behind this event.
    pub(crate) keys: Vec<(String, String, i64)>,
    /// The events whose status may have changed.
    pub(crate) seqs: Vec<i64>,
}

/// A delivery that is not tried any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The event.
    pub(crate) seq: i64,
    /// Why.
    pub(crate) error: String,
    /// The code of its last attempt.
    pub(crate) code: &'static str,
}

impl Moves {
    fn add(&mut self, list: fn(&mut Self) -> &mut Vec<DueDelivery>, record: &Record, lane: &str, target: Option<&str>) {
        let (seq, shard) = (record.sequence, record.envelope.shard());
        list(self).push(DueDelivery { seq, lane: lane.into(), target: target.map(Into::into), shard });
    }

    fn take(&mut self, record: &Record, delivery: &Delivery) {
        self.add(|moves| &mut moves.taken, record, &delivery.lane, delivery.target.as_deref());
        let key = record.envelope.key.clone();
        self.keys.extend(key.map(|key| (delivery.lane.clone(), key, record.sequence)));
    }
}

/// The rows of one event that concern one consumer.
struct Rows<'r> {
    record: &'r Record,
    /// In the consumer's lane.
    own: Option<&'r Delivery>,
    /// In the broker's lane, for this consumer only.
    aimed: Option<&'r Delivery>,
    /// In the broker's lane, for all consumers behind it.
    shared: Option<&'r Delivery>,
    /// Whether a report of the consumer was expected.
    expected: bool,
    /// Whether a report of the consumer is still expected.
    owed: bool,
}

impl<'r> Rows<'r> {
    fn of(record: &'r Record, consumer: &str) -> Self {
        let find = |lane: &str, target: Option<&str>| {
            record.deliveries.iter().find(|one| one.lane == lane && one.target.as_deref() == target)
        };
        let expected = record.consumptions.iter().any(|one| one.consumer == consumer && one.attempt == 0);
        let is_over = record.expired || record.kept.expired_at.is_some();
        let state = record.consumers().get(consumer).copied();
        let is_open = !matches!(state, Some(ConsumerState::Ok | ConsumerState::Failed));
        Self {
            record,
            own: find(consumer, None),
            aimed: find(RABBITMQ, Some(consumer)),
            shared: find(RABBITMQ, None).filter(is_alive),
            expected,
            owed: expected && is_open && !is_over,
        }
    }

    fn has_waiting_row(&self) -> bool {
        self.own.filter(is_alive).is_some() || self.aimed.filter(is_alive).is_some()
    }
}

fn is_alive(delivery: &&Delivery) -> bool {
    delivery.status != DeliveryStatus::Dead
}

/// A change of how a consumer gets its events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shift<'a> {
    /// The consumer.
    pub(crate) consumer: &'a str,
    /// Its `via` from now on.
    pub(crate) to: Via,
    /// Whether it got its events by its own means until now: then everything that it owes is sent.
    pub(crate) from_external: bool,
    /// All subscriptions after the change.
    pub(crate) subscriptions: &'a [StoredSubscription],
}

impl Shift<'_> {
    /// Decides on the rows of locked events. A delivery that moves is taken from its holder, because a result of the old way
    /// says nothing about the new one. A dead one is not tried again: its end stays in the history, and a redrive uses the
    /// new way.
    pub(crate) fn moves(&self, records: &[Record]) -> Moves {
        let mut moves = Moves::default();
        for record in records {
            let before = moves.taken.len() + moves.inserted.len() + moves.expected.len();
            self.shift(&Rows::of(record, self.consumer), &mut moves);
            if moves.taken.len() + moves.inserted.len() + moves.expected.len() > before {
                moves.seqs.push(record.sequence);
            }
        }
        moves
    }

    fn shift(&self, rows: &Rows<'_>, moves: &mut Moves) {
        let (record, topic) = (rows.record, rows.record.envelope.topic.as_str());
        let sent_for_it = rows.shared.filter(|_| rows.owed);
        match self.to {
            Via::Local | Via::Pull | Via::Webhook => {
                let wanted = rows.aimed.filter(is_alive).is_some() || sent_for_it.is_some();
                self.end_of(rows, rows.aimed, moves);
                if rows.own.is_none() && (wanted || (self.from_external && rows.owed)) {
                    moves.add(|moves| &mut moves.inserted, record, self.consumer, None);
                }
                self.drop_shared(rows, moves);
            }
            Via::RabbitMq => {
                // Its queue gets what is published to all, as long as it is bound.
                let unbound = !self.is_bound(topic, |one| one.consumer == self.consumer);
                let missed =
                    (self.from_external && rows.owed && rows.shared.is_none()) || (unbound && sent_for_it.is_some());
                let wanted = rows.own.filter(is_alive).is_some() || missed;
                self.end_of(rows, rows.own, moves);
                if rows.aimed.is_none() && wanted {
                    moves.add(|moves| &mut moves.inserted, record, RABBITMQ, Some(self.consumer));
                    self.expect(rows, moves);
                }
                if unbound {
                    self.drop_shared(rows, moves);
                }
            }
            Via::External => {
                if rows.has_waiting_row() {
                    self.expect(rows, moves);
                }
                self.end_of(rows, rows.own, moves);
                self.end_of(rows, rows.aimed, moves);
                self.drop_shared(rows, moves);
            }
        }
    }

    /// Takes a delivery of the old way. A dead one leaves a failed attempt, if it has none.
    fn end_of(&self, rows: &Rows<'_>, delivery: Option<&Delivery>, moves: &mut Moves) {
        let Some(delivery) = delivery else { return };
        if delivery.lane == RABBITMQ {
            moves.take(rows.record, delivery);
        } else {
            // The whole lane moves: nothing is left behind it.
            moves.add(|moves| &mut moves.taken, rows.record, &delivery.lane, None);
        }
        let last = rows.record.consumptions.iter().rfind(|one| one.consumer == self.consumer);
        let is_recorded = last.is_some_and(|last| last.success == Some(false) && !last.will_retry);
        if delivery.status == DeliveryStatus::Dead && !is_recorded {
            let error = delivery.last_error.clone().unwrap_or_else(|| "given up".into());
            moves.ended.push(Ended { seq: rows.record.sequence, error, code: DEAD });
        }
    }

    fn expect(&self, rows: &Rows<'_>, moves: &mut Moves) {
        if !rows.expected {
            let (seq, consumer) = (rows.record.sequence, self.consumer.to_owned());
            moves.expected.push(ExpectedConsumer { seq, consumer });
        }
    }

    /// Removes the delivery to all consumers behind the broker if this one was the last of them: no queue would take it.
    fn drop_shared(&self, rows: &Rows<'_>, moves: &mut Moves) {
        let is_wanted = || self.is_bound(&rows.record.envelope.topic, |one| one.consumer != self.consumer);
        if let Some(shared) = rows.shared.filter(|_| rows.owed && !is_wanted()) {
            moves.take(rows.record, shared);
        }
    }

    /// Whether some queue is bound to a topic.
    fn is_bound(&self, topic: &str, of: impl Fn(&Subscription) -> bool) -> bool {
        let present = self.subscriptions.iter().filter(|row| !row.removed).map(|row| &row.subscription);
        present.filter(|one| one.via == Via::RabbitMq && of(one)).any(|one| one.hears(topic))
    }

    /// Whether the removal of a subscription to `removed` concerns a topic: no other subscription of the consumer does.
    pub(crate) fn concerns(&self, removed: &str, topic: &str) -> bool {
        let others = self.subscriptions.iter().filter(|row| !row.removed).map(|row| &row.subscription);
        let mut others = others.filter(|one| one.consumer == self.consumer && one.topic != removed);
        (removed == topic || removed == EVERY_TOPIC)
            && !others.any(|one| one.topic == topic || one.topic == EVERY_TOPIC)
    }

    /// Whether an event waits for the consumer: its delivery is not dead, or a remote consumer owes its report.
    pub(crate) fn is_waiting(&self, record: &Record) -> bool {
        let rows = Rows::of(record, self.consumer);
        rows.has_waiting_row() || (self.owes(&rows) && rows.own.is_none() && rows.aimed.is_none())
    }

    /// A consumer with its own lane settles, and owes no report. What it got through the broker before is in its queue.
    fn owes(&self, rows: &Rows<'_>) -> bool {
        rows.owed && !self.to.has_own_lane()
    }

    /// Ends everything that waits for the consumer, and what is dead, in the events that the removal of a subscription to
    /// `removed` concerns.
    pub(crate) fn discards(&self, records: &[Record], removed: &str, reason: &str) -> Moves {
        let mut moves = Moves::default();
        for record in records.iter().filter(|record| self.concerns(removed, &record.envelope.topic)) {
            let rows = Rows::of(record, self.consumer);
            let open: Vec<_> = [rows.own, rows.aimed].into_iter().flatten().collect();
            if open.is_empty() && !self.owes(&rows) {
                continue;
            }
            open.into_iter().for_each(|delivery| moves.take(record, delivery));
            self.drop_shared(&rows, &mut moves);
            moves.ended.push(Ended { seq: record.sequence, error: reason.into(), code: DISCARDED });
            moves.seqs.push(record.sequence);
        }
        moves
    }
}
