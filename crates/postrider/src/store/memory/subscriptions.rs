//! Subscriptions and paused lanes.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use serde_json::json;
use time::OffsetDateTime;

use super::MemoryStore;
use super::deliveries::{Failure, attempt};
use super::state::{SecretRow, State};
use crate::error::{Error, Result};
use crate::redrive::Refusal;
use crate::status::Record;
use crate::store::audit::Change;
use crate::store::decide::{
    Moves, NameUse, Renaming, Shift, check_version, decide_change, decide_rename, decide_secrets, registered_as,
    was_external,
};
use crate::store::subscription::check_rename;
use crate::store::{
    LaneSettings, Renamed, SecretChange, SubscriptionChange, SubscriptionChanged, SubscriptionRemoval,
    SubscriptionRemoved, Subscriptions, Waiting,
};
use crate::subscription::{StoredSubscription, Subscription, Via};

#[async_trait]
impl Subscriptions for MemoryStore {
    async fn register(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        self.write(|state, now| {
            let registered = registered_as(subscription, &state.of_consumer(&subscription.consumer));
            let id = (subscription.topic.clone(), subscription.consumer.clone());
            state.subscriptions.entry(id).or_insert_with(|| stored(&registered, now, now));
        })
        .await;
        Ok(())
    }

    async fn change_subscription(&self, change: &SubscriptionChange) -> Result<SubscriptionChanged> {
        change.check()?;
        self.write(|state, now| {
            let wanted = &change.subscription;
            let rows = state.of_consumer(&wanted.consumer);
            let written = decide_change(change, &rows).map_err(Error::Refused)?;
            for one in &written {
                let id = (one.topic.clone(), one.consumer.clone());
                let created_at = state.subscriptions.get(&id).map_or(now, |known| known.created_at);
                state.subscriptions.insert(id, stored(one, created_at, now));
            }
            let mut secret = None;
            for (topic, change) in decide_secrets(change, &rows) {
                secret = state.write_secret(topic, &wanted.consumer, change, now).or(secret);
            }
            let subscriptions = state.subscriptions(None);
            let shift = Shift {
                consumer: &wanted.consumer,
                to: wanted.via,
                from_external: was_external(&rows) && wanted.via != Via::External,
                subscriptions: &subscriptions,
            };
            let moves = shift.moves(&state.records(now));
            state.carry_moves(&wanted.consumer, &moves, now);
            let id = (wanted.topic.clone(), wanted.consumer.clone());
            let changed = SubscriptionChanged {
                stored: state.subscriptions[&id].clone(),
                moved: moves.seqs.len() as u64,
                waiting: state.waiting(&shift, &wanted.topic, now),
            };
            let before = rows.iter().find(|row| !row.removed && row.subscription.topic == wanted.topic);
            let done = change.done(changed.moved, changed.waiting, secret);
            let (before, after) = (before.map(|row| &row.subscription), Some(&changed.stored.subscription));
            state.note(&Change::subscription(before, after, done), now);
            Ok(changed)
        })
        .await
    }

    async fn end_subscription(&self, removal: &SubscriptionRemoval) -> Result<Option<SubscriptionRemoved>> {
        self.write(|state, now| {
            let id = (removal.topic.clone(), removal.consumer.clone());
            let rows = state.of_consumer(&removal.consumer);
            let Some(via) = state.subscriptions.get(&id).filter(|known| !known.removed).map(|k| k.subscription.via)
            else {
                return Ok(None);
            };
            check_version(&removal.topic, removal.if_version.as_deref(), &rows).map_err(Error::Refused)?;
            let mut subscriptions = state.subscriptions(None);
            subscriptions.retain(|row| (&row.subscription.topic, &row.subscription.consumer) != (&id.0, &id.1));
            let consumer = &removal.consumer;
            let shift = Shift { consumer, to: via, from_external: false, subscriptions: &subscriptions };
            let waiting = state.waiting(&shift, &removal.topic, now);
            let (moves, removed) = match removal.waiting {
                None if waiting > 0 => return Err(Error::Refused(Refusal::DeliveriesWait(waiting))),
                Some(Waiting::Discard) => {
                    let moves = shift.discards(&state.records(now), &removal.topic, &removal.reason());
                    let discarded = moves.seqs.len() as u64;
                    (moves, SubscriptionRemoved { waiting: 0, discarded })
                }
                _ => (shift.moves(&state.records(now)), SubscriptionRemoved { waiting, discarded: 0 }),
            };
            state.carry_moves(consumer, &moves, now);
            if let Some(known) = state.subscriptions.get_mut(&id) {
                known.removed = true;
                known.subscription.enabled = false;
                known.updated_at = now;
            }
            let before = rows.iter().find(|row| row.subscription.topic == removal.topic).map(|row| &row.subscription);
            let done = json!({ "waiting": removed.waiting, "discarded": removed.discarded });
            state.note(&Change::subscription(before, None, done), now);
            Ok(Some(removed))
        })
        .await
    }

    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>> {
        Ok(self.read(|state, _| state.subscriptions(topic)))
    }

    async fn removed_subscriptions(&self) -> Result<Vec<StoredSubscription>> {
        // They are sorted by topic and consumer.
        Ok(self.read(|state, _| state.subscriptions.values().filter(|stored| stored.removed).cloned().collect()))
    }

    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()> {
        self.write(|state, now| {
            let changed = if paused { state.paused.insert(lane.into()) } else { state.paused.remove(lane) };
            if changed {
                state.note(&Change::paused(paused), now);
            }
        })
        .await;
        Ok(())
    }

    async fn paused(&self) -> Result<BTreeSet<String>> {
        Ok(self.read(|state, _| state.paused.clone()))
    }

    async fn record_lane(&self, lane: &str, settings: LaneSettings) -> Result<()> {
        self.write(|state, _| state.lanes.insert(lane.into(), settings)).await;
        Ok(())
    }

    async fn lanes(&self) -> Result<BTreeMap<String, LaneSettings>> {
        Ok(self.read(|state, _| state.lanes.clone()))
    }

    async fn rename_consumer(&self, from: &str, to: &str) -> Result<Renamed> {
        check_rename(from, to)?;
        self.write(|state, now| {
            let renaming =
                decide_rename(from, &state.name_use(from), to, &state.name_use(to)).map_err(Error::Refused)?;
            if state.have_common_rows(from, to) {
                return Err(Error::Refused(Refusal::NameInUse(to.into())));
            }
            let renamed = state.rename(from, to, renaming, now);
            state.note(&Change::renamed(from, to, &renamed), now);
            Ok(renamed)
        })
        .await
    }
}

impl State {
    pub(super) fn subscriptions(&self, topic: Option<&str>) -> Vec<StoredSubscription> {
        let wanted = |s: &&StoredSubscription| !s.removed && topic.is_none_or(|topic| s.subscription.topic == topic);
        let mut found: Vec<_> = self.subscriptions.values().filter(wanted).cloned().collect();
        found.sort_by(|a, b| {
            let order = |s: &StoredSubscription| (s.subscription.topic.clone(), s.subscription.sort_order);
            // They are sorted by consumer already, and the sort is stable.
            order(a).cmp(&order(b))
        });
        found
    }

    /// Returns what the audit has of it, if it has changed.
    fn write_secret(
        &mut self,
        topic: &str,
        consumer: &str,
        change: &SecretChange,
        now: OffsetDateTime,
    ) -> Option<&'static str> {
        let id = (topic.to_owned(), consumer.to_owned());
        match change {
            SecretChange::Keep => None,
            SecretChange::Remove => self.secrets.remove(&id).map(|_| "removed"),
            SecretChange::Set(secret) => {
                let known = self.secrets.remove(&id);
                if let Some(known) = known.as_ref().filter(|known| known.secret == *secret) {
                    self.secrets.insert(id, known.clone());
                    return None;
                }
                let previous = known.map(|known| known.secret);
                self.secrets.insert(id, SecretRow { secret: secret.clone(), previous, changed_at: now });
                Some("set")
            }
        }
    }

    /// All rows of a consumer, also removed ones.
    fn of_consumer(&self, consumer: &str) -> Vec<StoredSubscription> {
        self.subscriptions.values().filter(|row| row.subscription.consumer == consumer).cloned().collect()
    }

    fn records(&self, now: OffsetDateTime) -> Vec<Record> {
        self.events.keys().filter_map(|seq| self.record(*seq, now)).collect()
    }

    /// How many events of a subscription wait for its consumer.
    fn waiting(&self, shift: &Shift<'_>, topic: &str, now: OffsetDateTime) -> u64 {
        let records = self.records(now);
        let of_topic = records.iter().filter(|record| shift.concerns(topic, &record.envelope.topic));
        of_topic.filter(|record| shift.is_waiting(record)).count() as u64
    }

    fn carry_moves(&mut self, consumer: &str, moves: &Moves, now: OffsetDateTime) {
        for taken in &moves.taken {
            if let Some(id) = self.delivery_ids.remove(&(taken.seq, taken.lane.clone(), taken.target.clone())) {
                self.deliveries.remove(&id);
            }
        }
        for expected in &moves.expected {
            self.expect(expected.seq, &expected.consumer, now);
        }
        for due in &moves.inserted {
            let due_at = self.events[&due.seq].envelope.deliver_at.unwrap_or(now);
            self.deliver(due.seq, &due.lane, due.target.as_deref(), due_at);
        }
        for ended in &moves.ended {
            let failure = Failure::new(&ended.error, Some(ended.code), false);
            self.append(ended.seq, attempt(consumer, Err(failure), now), None);
        }
        for (lane, key, seq) in &moves.keys {
            self.free_followers(lane, key, *seq, now);
        }
        moves.seqs.iter().for_each(|seq| self.mark(*seq));
    }

    pub(super) fn subscribed<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a Subscription> {
        let present = self.subscriptions.values().filter(|stored| !stored.removed);
        let subscriptions = present.map(|stored| &stored.subscription);
        subscriptions.filter(move |subscription| subscription.hears(topic))
    }

    fn name_use(&self, consumer: &str) -> NameUse {
        let mut live = self.subscriptions.values().filter(|s| !s.removed && s.subscription.consumer == consumer);
        NameUse {
            subscribed: live.clone().next().is_some(),
            by_broker: live.any(|s| s.subscription.via == Via::RabbitMq),
            delivered: self.deliveries.values().any(|row| row.lane == consumer),
            received: self.inbox.keys().any(|(name, _)| name == consumer),
        }
    }

    /// Whether both have a row of the same event, which could not have one name.
    fn have_common_rows(&self, from: &str, to: &str) -> bool {
        let is_of = |name: &str| name == from;
        self.delivery_ids.keys().any(|(seq, lane, target)| {
            is_of(lane) && self.delivery_ids.contains_key(&(*seq, to.into(), target.clone()))
        }) || self.consumptions.keys().any(|(seq, consumer, attempt)| {
            is_of(consumer) && self.consumptions.contains_key(&(*seq, to.into(), *attempt))
        }) || self
            .inbox
            .keys()
            .any(|(consumer, id)| is_of(consumer) && self.inbox.contains_key(&(to.into(), id.clone())))
    }

    fn rename(&mut self, from: &str, to: &str, renaming: Renaming, now: OffsetDateTime) -> Renamed {
        let mut renamed = Renamed::default();
        let moved = |consumer: String| if consumer == from { to.to_owned() } else { consumer };
        let repeats = std::mem::take(&mut self.repeats).into_iter();
        self.repeats = repeats.map(|((consumer, event), row)| ((moved(consumer), event), row)).collect();
        let expected = std::mem::take(&mut self.expected).into_iter();
        self.expected = expected.map(|(consumer, seq)| (moved(consumer), seq)).collect();
        if renaming == Renaming::WithSubscriptions {
            let old = self.subscriptions.range_mut(..).filter(|((_, consumer), _)| consumer == from);
            let mut new = Vec::new();
            for ((topic, _), stored) in old {
                let mut moved = StoredSubscription { updated_at: now, ..stored.clone() };
                moved.subscription.consumer = to.into();
                new.push(((topic.clone(), to.to_owned()), moved));
                stored.removed = true;
                stored.subscription.enabled = false;
                stored.updated_at = now;
            }
            renamed.subscriptions = new.len() as u64;
            self.subscriptions.extend(new);
            self.secrets.retain(|(_, consumer), _| consumer != to);
            let secrets: Vec<_> = self.secrets.extract_if(.., |(_, consumer), _| consumer == from).collect();
            self.secrets.extend(secrets.into_iter().map(|((topic, _), row)| ((topic, to.to_owned()), row)));
        }
        for (id, row) in self.deliveries.iter_mut().filter(|(_, row)| row.lane == from) {
            self.delivery_ids.remove(&(row.event_seq, row.lane.clone(), row.target.clone()));
            row.lane = to.into();
            self.delivery_ids.insert((row.event_seq, row.lane.clone(), row.target.clone()), *id);
            renamed.deliveries += 1;
        }
        let received: Vec<_> = self.inbox.extract_if(.., |(consumer, _), _| consumer == from).collect();
        renamed.received = received.len() as u64;
        self.inbox.extend(received.into_iter().map(|((_, event_id), row)| ((to.into(), event_id), row)));
        let attempts: Vec<_> = self.consumptions.extract_if(.., |(_, consumer, _), _| consumer == from).collect();
        renamed.attempts = attempts.len() as u64;
        for ((seq, _, attempt), mut row) in attempts {
            row.consumption.consumer = to.into();
            self.consumptions.insert((seq, to.into(), attempt), row);
        }
        if self.paused.remove(from) {
            self.paused.insert(to.into());
        }
        renamed
    }
}

fn stored(subscription: &Subscription, created_at: OffsetDateTime, updated_at: OffsetDateTime) -> StoredSubscription {
    StoredSubscription { subscription: subscription.clone(), removed: false, created_at, updated_at }
}
