//! Events and who hears them: enqueue, route, subscriptions, find, prune.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;

use super::state::{ConsumptionRow, DeliveryRow, EventRow, KeyStatus, State, span};
use crate::entry::DeliveryStatus;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::limits;
use crate::store::figure;
use crate::store::{
    Consumption, Delivery, DeliveryId, Enqueued, Finished, Found, LaneCounts, NewEvent, Prunable, Prune, Pruned,
    Routed, Routing, Unheard,
};
use crate::subscription::{StoredSubscription, Subscription};

impl State {
    pub(super) fn enqueue(&mut self, new: &NewEvent, unheard: Unheard, now: OffsetDateTime) -> Result<Enqueued> {
        let id = new.envelope.event_id.clone();
        if let Some(known) = self.sequences.get(id.as_str()) {
            return match self.events[known].envelope.same_content(&new.envelope) {
                true => Ok(Enqueued::Duplicate(id)),
                false => Err(Error::IdConflict { event_id: id.to_string() }),
            };
        }
        let heard = self.heard(&new.envelope.topic).next().is_some();
        match unheard {
            Unheard::Skip if !heard => return Ok(Enqueued::Skipped(id)),
            Unheard::Refuse if !heard => {
                return Err(Error::Unheard { topic: new.envelope.topic.clone() });
            }
            _ => {}
        }
        let mut envelope = new.envelope.clone();
        let from_now = |duration: Duration| now + span(duration);
        envelope.deliver_at = new.delay.map(from_now).or(envelope.deliver_at);
        envelope.expire_at = new.expire_after.map(from_now).or(envelope.expire_at);
        let seq = self.store(envelope, now);
        Ok(match self.route_one(seq, now) {
            true => Enqueued::Accepted(id),
            false => Enqueued::Unheard(id),
        })
    }

    pub(super) fn insert(&mut self, envelope: Envelope, now: OffsetDateTime) -> Result<()> {
        match self.sequences.contains_key(envelope.event_id.as_str()) {
            true => Err(Error::Store("the event id is taken".into())),
            false => {
                self.store(envelope, now);
                Ok(())
            }
        }
    }

    fn store(&mut self, envelope: Envelope, now: OffsetDateTime) -> i64 {
        let seq = self.next_sequence();
        self.sequences.insert(envelope.event_id.to_string(), seq);
        let event = EventRow { envelope: Arc::new(envelope), routing: Routing::New, created_at: now };
        self.events.insert(seq, event);
        seq
    }

    pub(super) fn route(&mut self, limit: u32, now: OffsetDateTime) -> Routed {
        let waits = |event: &EventRow| match event.routing {
            Routing::New => true,
            Routing::Unheard => self.heard(&event.envelope.topic).next().is_some(),
            Routing::Routed => false,
        };
        let waiting = self.events.iter().filter(|(_, event)| waits(event));
        let taken: Vec<i64> = waiting.map(|(seq, _)| *seq).take(limit as usize).collect();
        let mut routed = Routed::default();
        for seq in taken {
            match self.route_one(seq, now) {
                true => routed.routed += 1,
                false => routed.unheard += 1,
            }
        }
        routed
    }

    /// Gives an event its deliveries and expected consumers, by the subscriptions as they are. False: nobody hears it.
    fn route_one(&mut self, seq: i64, now: OffsetDateTime) -> bool {
        let envelope = Arc::clone(&self.events[&seq].envelope);
        let subscriptions: Vec<Subscription> = self.heard(&envelope.topic).cloned().collect();
        // Sets: a consumer may hear both this topic and every topic, and all consumers of the broker share its lane.
        let lanes: BTreeSet<&str> = subscriptions.iter().filter_map(Subscription::lane).collect();
        let remote = subscriptions.iter().filter(|s| s.is_expected_remotely());
        let expected: BTreeSet<&str> = remote.map(|s| s.consumer.as_str()).collect();
        for lane in lanes {
            // A redrive may have made one before the event was routed.
            if self.delivery(seq, lane, "").is_none() {
                let due_at = envelope.deliver_at.unwrap_or(now);
                self.deliver(seq, lane, "", due_at);
            }
        }
        for consumer in expected {
            self.expect(seq, consumer, now);
        }
        let heard = !subscriptions.is_empty();
        if let Some(event) = self.events.get_mut(&seq) {
            event.routing = if heard { Routing::Routed } else { Routing::Unheard };
        }
        heard
    }

    /// Attempt 0: the consumer will report.
    pub(super) fn expect(&mut self, seq: i64, consumer: &str, now: OffsetDateTime) {
        let row = ConsumptionRow {
            consumption: Consumption {
                consumer: consumer.into(),
                attempt: 0,
                success: None,
                will_retry: false,
                consumed_at: None,
                error: None,
                code: None,
                created_at: now,
            },
            callback_id: None,
        };
        self.consumptions.entry((seq, consumer.into(), 0)).or_insert(row);
    }

    pub(super) fn deliver(&mut self, seq: i64, lane: &str, target: &str, due_at: OffsetDateTime) {
        let envelope = &self.events[&seq].envelope;
        let row = DeliveryRow {
            event_seq: seq,
            lane: lane.into(),
            target: target.into(),
            key: envelope.key.as_deref().map(Into::into),
            shard: envelope.shard(),
            status: DeliveryStatus::New,
            held: false,
            attempts: 0,
            due_at,
            lock: None,
            last_error: None,
        };
        let id = self.next_delivery(seq);
        self.delivery_ids.insert((seq, lane.into(), target.into()), id);
        self.deliveries.insert(id, row);
    }

    pub(super) fn delivery(&self, seq: i64, lane: &str, target: &str) -> Option<DeliveryId> {
        let place = (seq, lane.to_owned(), target.to_owned());
        self.delivery_ids.get(&place).copied()
    }

    fn heard<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a Subscription> {
        let present = self.subscriptions.values().filter(|stored| !stored.removed);
        let subscriptions = present.map(|stored| &stored.subscription);
        subscriptions.filter(move |subscription| subscription.hears(topic))
    }

    pub(super) fn register(&mut self, subscription: &Subscription, now: OffsetDateTime) {
        let id = (subscription.topic.clone(), subscription.consumer.clone());
        self.subscriptions.entry(id).or_insert_with(|| stored(subscription, now, now));
    }

    pub(super) fn set_subscription(&mut self, subscription: &Subscription, now: OffsetDateTime) {
        let id = (subscription.topic.clone(), subscription.consumer.clone());
        let created_at = self.subscriptions.get(&id).map_or(now, |known| known.created_at);
        self.subscriptions.insert(id, stored(subscription, created_at, now));
    }

    pub(super) fn remove_subscription(&mut self, topic: &str, consumer: &str, now: OffsetDateTime) -> bool {
        match self.subscriptions.get_mut(&(topic.into(), consumer.into())) {
            Some(known) if !known.removed => {
                known.removed = true;
                known.subscription.enabled = false;
                known.updated_at = now;
                true
            }
            _ => false,
        }
    }

    pub(super) fn subscriptions(&self, topic: Option<&str>) -> Vec<StoredSubscription> {
        let wanted = |s: &&StoredSubscription| !s.removed && topic.is_none_or(|topic| s.subscription.topic == topic);
        let mut found: Vec<_> = self.subscriptions.values().filter(wanted).cloned().collect();
        found.sort_by(|a, b| {
            let order = |s: &StoredSubscription| (s.subscription.topic.clone(), s.subscription.sort_order);
            // By consumer they are already, and the sort is stable.
            order(a).cmp(&order(b))
        });
        found
    }

    pub(super) fn find(&self, event_id: &str, now: OffsetDateTime) -> Option<Found> {
        self.record(*self.sequences.get(event_id)?, now)
    }

    /// An event with its rows, as they are.
    pub(super) fn record(&self, seq: i64, now: OffsetDateTime) -> Option<Found> {
        let event = self.events.get(&seq)?;
        let of_event = self.delivery_ids.range((seq, String::new(), String::new())..);
        let of_event = of_event.take_while(|((of, _, _), _)| *of == seq);
        let deliveries = of_event.map(|(_, id)| shown(*id, &self.deliveries[id])).collect();
        let attempts = self.consumptions.range((seq, String::new(), 0)..);
        let attempts = attempts.take_while(|((of, _, _), _)| *of == seq);
        let row = self.statuses.get(&seq);
        Some(Found {
            sequence: seq,
            envelope: Envelope::clone(&event.envelope),
            routing: event.routing,
            created_at: event.created_at,
            expired: event.envelope.expire_at.is_some_and(|at| at <= now),
            kept: row.map(|row| row.kept).unwrap_or_default(),
            listed: row.and_then(|row| row.standing.as_ref()).map(|standing| standing.status),
            listed_at: row.and_then(|row| row.status_at),
            deliveries,
            consumptions: attempts.map(|(_, row)| row.consumption.clone()).collect(),
        })
    }

    pub(super) fn counts(&self) -> BTreeMap<String, LaneCounts> {
        let mut lanes: BTreeMap<String, LaneCounts> = BTreeMap::new();
        for row in self.deliveries.values() {
            let counts = lanes.entry(row.lane.clone()).or_default();
            match row.status {
                DeliveryStatus::New => counts.new += 1,
                DeliveryStatus::Processing => counts.processing += 1,
                DeliveryStatus::Failed => counts.failed += 1,
                DeliveryStatus::Dead => counts.dead += 1,
            }
            counts.held += u64::from(row.held);
        }
        lanes
    }

    pub(super) fn prune(&mut self, prune: &Prune, now: OffsetDateTime) -> Pruned {
        let limit = prune.limit.clamp(1, limits::PASS_ROWS) as usize;
        let before = now - span(prune.older_than);
        let (looked_at, removed, last) = match prune.what {
            Prunable::Events => self.prune_events(before, prune.after, limit),
            Prunable::Inbox => {
                let old = self.inbox.iter().filter(|(_, row)| row.received_at < before);
                let old: Vec<_> = old.map(|(id, _)| id.clone()).take(limit).collect();
                old.iter().for_each(|id| drop(self.inbox.remove(id)));
                (old.len(), old.len(), 0)
            }
            Prunable::Operations => {
                let (all, is_old) = (self.operations.len(), |at: OffsetDateTime| at < before);
                let mut left = limit;
                self.operations.retain(|row| {
                    let goes = left > 0 && row.operation.finished_at.is_some_and(is_old);
                    left -= usize::from(goes);
                    !goes
                });
                let gone = all - self.operations.len();
                (gone, gone, 0)
            }
            Prunable::Figures => {
                let old: Vec<i64> =
                    self.figures.range(..figure::minute_of(before)).map(|(at, _)| *at).take(limit).collect();
                for minute in &old {
                    self.figures.remove(minute);
                }
                (old.len(), old.len(), 0)
            }
            Prunable::Keys => {
                let old = self.keys.iter().filter(|(_, row)| {
                    row.updated_at < before && (row.status != KeyStatus::Processing || row.until <= now)
                });
                let old: Vec<_> = old.map(|(id, _)| id.clone()).take(limit).collect();
                old.iter().for_each(|id| drop(self.keys.remove(id)));
                (old.len(), old.len(), 0)
            }
        };
        Pruned { removed: removed as u64, next: (looked_at == limit).then_some(last) }
    }

    fn prune_events(&mut self, before: OffsetDateTime, after: i64, limit: usize) -> (usize, usize, i64) {
        let old = self.events.range(after + 1..).filter(|(_, event)| event.created_at < before);
        let looked_at: Vec<i64> = old.map(|(seq, _)| *seq).take(limit).collect();
        let removed = self.remove_events(&looked_at);
        (looked_at.len(), removed as usize, looked_at.last().copied().unwrap_or(after))
    }

    pub(super) fn finished(&self, prune: &Prune, now: OffsetDateTime) -> Finished {
        let limit = prune.limit.clamp(1, limits::PASS_ROWS) as usize;
        let before = now - span(prune.older_than);
        let old = self.events.range(prune.after + 1..).filter(|(_, event)| event.created_at < before);
        let looked_at: Vec<i64> = old.map(|(seq, _)| *seq).take(limit).collect();
        let finished = self.are_finished(&looked_at);
        let next = looked_at.last().copied().filter(|_| looked_at.len() == limit);
        Finished { events: finished.iter().filter_map(|seq| self.record(*seq, now)).collect(), next }
    }

    /// Those that have their deliveries behind them.
    fn are_finished(&self, seqs: &[i64]) -> BTreeSet<i64> {
        let waiting: BTreeSet<i64> = self.deliveries.values().map(|row| row.event_seq).collect();
        let routed = |seq: &i64| self.events.get(seq).is_some_and(|event| event.routing == Routing::Routed);
        seqs.iter().copied().filter(|seq| routed(seq) && !waiting.contains(seq)).collect()
    }

    /// Removes those of the events that are finished, and all that is known of them.
    pub(super) fn remove_events(&mut self, seqs: &[i64]) -> u64 {
        let finished = self.are_finished(seqs);
        for seq in &finished {
            if let Some(event) = self.events.remove(seq) {
                self.sequences.remove(event.envelope.event_id.as_str());
            }
        }
        self.consumptions.retain(|(seq, _, _), _| !finished.contains(seq));
        self.statuses.retain(|seq, _| !finished.contains(seq));
        finished.len() as u64
    }
}

fn stored(subscription: &Subscription, created_at: OffsetDateTime, updated_at: OffsetDateTime) -> StoredSubscription {
    StoredSubscription { subscription: subscription.clone(), removed: false, created_at, updated_at }
}

fn shown(id: DeliveryId, row: &DeliveryRow) -> Delivery {
    let lock = row.lock.as_ref();
    Delivery {
        id,
        lane: row.lane.clone(),
        target: row.target.clone(),
        shard: row.shard,
        status: row.status,
        held: row.held,
        attempts: row.attempts,
        due_at: row.due_at,
        lock_owner: lock.map(|lock| lock.owner.clone()),
        lock_time: lock.map(|lock| lock.since),
        lock_until: lock.map(|lock| lock.until),
        last_error: row.last_error.clone(),
    }
}
