//! Events and their subscribers: enqueue, route, find, list, reports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::{ConsumptionRow, DeliveryRow, EventRow, State, span};
use crate::entry::DeliveryStatus;
use crate::envelope::{Envelope, trim};
use crate::error::{Error, Result};
use crate::limits;
use crate::store::decide::search::names;
use crate::store::enlist;
use crate::store::{
    Appended, AttemptList, AttemptPlace, ConsumerAttempt, Consumption, Counted, Cursor, Delivery, DeliveryId, Enqueued,
    Events, Filter, List, NewEvent, Page, Record, Report, Routed, Routing, Unheard,
};
use crate::subscription::Subscription;

#[async_trait]
impl Events for MemoryStore {
    async fn publish(&self, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        enlist::publish(self, batch, unheard).await
    }

    async fn route(&self, limit: u32) -> Result<Routed> {
        Ok(self
            .write(|state, now| {
                let waits = |event: &EventRow| match event.routing {
                    Routing::New => true,
                    Routing::Unheard => state.subscribed(&event.envelope.topic).next().is_some(),
                    Routing::Routed => false,
                };
                let waiting = state.events.iter().filter(|(_, event)| waits(event));
                let taken: Vec<i64> = waiting.map(|(seq, _)| *seq).take(limit as usize).collect();
                let mut routed = Routed::default();
                for seq in taken {
                    if state.route_one(seq, now) { routed.routed += 1 } else { routed.unheard += 1 }
                }
                routed
            })
            .await)
    }

    async fn find(&self, event_id: &str) -> Result<Option<Record>> {
        Ok(self.read(|state, now| state.record(*state.sequences.get(event_id)?, now)))
    }

    async fn list(&self, list: &List) -> Result<Page> {
        list.check()?;
        Ok(self.read(|state, now| {
            let below = list.after.map_or(i64::MAX, |cursor| cursor.0);
            let newest_first = state.events.range(..below).rev();
            let records = newest_first.filter_map(|(seq, _)| state.record(*seq, now));
            let mut matching = records.filter(|record| list.filter.matches(record));
            let mut events: Vec<_> = matching.by_ref().take(list.limit as usize).collect();
            for record in &mut events {
                record.envelope.payload = String::new();
                record.envelope.metadata = None;
            }
            let next = events.last().filter(|_| events.len() == list.limit as usize);
            Page { next: next.map(|record| Cursor(record.sequence)), events }
        }))
    }

    async fn count_events(&self, filter: &Filter) -> Result<Counted> {
        filter.check()?;
        Ok(self.read(|state, now| {
            let records = state.events.keys().filter_map(|seq| state.record(*seq, now));
            Counted { value: records.filter(|record| filter.matches(record)).count() as u64, exact: true }
        }))
    }

    async fn search(&self, text: &str, limit: u32) -> Result<Vec<Record>> {
        Ok(self.read(|state, now| {
            let records = state.events.keys().rev().filter_map(|seq| state.record(*seq, now));
            let mut found: Vec<_> = records.filter(|record| names(text, record)).take(limit as usize).collect();
            for record in &mut found {
                record.envelope.payload = String::new();
                record.envelope.metadata = None;
            }
            found
        }))
    }

    async fn attempts(&self, list: &AttemptList) -> Result<Vec<ConsumerAttempt>> {
        list.check()?;
        let below = list.below();
        Ok(self.read(|state, _| {
            let rows = state.consumptions.iter().filter(|((_, consumer, _), _)| *consumer == list.consumer);
            let mut attempts: Vec<_> = rows
                .filter_map(|((sequence, _, attempt), row)| {
                    let place =
                        AttemptPlace { at: row.consumption.consumed_at?, sequence: *sequence, attempt: *attempt };
                    let event = &state.events.get(sequence)?.envelope;
                    Some(ConsumerAttempt {
                        event_id: event.event_id.to_string(),
                        topic: event.topic.clone(),
                        tenant_id: event.tenant_id.clone(),
                        place,
                        consumption: row.consumption.clone(),
                    })
                })
                .filter(|one| one.place < below && list.from.is_none_or(|from| from <= one.place.at))
                .collect();
            attempts.sort_by_key(|one| std::cmp::Reverse(one.place));
            attempts.truncate(list.limit as usize);
            attempts
        }))
    }

    async fn append_consumption(&self, report: &Report) -> Result<Appended> {
        Ok(self
            .write(|state, now| {
                let Some(&seq) = state.sequences.get(&report.event_id) else {
                    return Appended::NotExpected;
                };
                let of_consumer = (seq, report.consumer.clone(), 0)..=(seq, report.consumer.clone(), u32::MAX);
                let attempts = || state.consumptions.range(of_consumer.clone());
                if attempts().next().is_none_or(|((_, _, first), _)| *first != 0) {
                    return Appended::NotExpected;
                }
                if let Some(callback_id) = &report.callback_id
                    && let Some(((_, _, attempt), _)) =
                        attempts().find(|(_, row)| row.callback_id.as_ref() == Some(callback_id))
                {
                    return Appended::Repeated(*attempt);
                }
                let consumption = Consumption {
                    consumer: report.consumer.clone(),
                    attempt: 0,
                    success: Some(report.success),
                    will_retry: report.will_retry,
                    consumed_at: Some(report.consumed_at.map_or(now, trim)),
                    error: report.error.as_deref().map(limits::error_text),
                    code: report.code.as_deref().map(limits::error_code),
                    created_at: now,
                };
                Appended::Attempt(state.append(seq, consumption, report.callback_id.clone()))
            })
            .await)
    }
}

impl State {
    pub(super) fn enqueue(&mut self, new: &NewEvent, unheard: Unheard, now: OffsetDateTime) -> Result<Enqueued> {
        let id = new.envelope.event_id.clone();
        if let Some(known) = self.sequences.get(id.as_str()) {
            return if self.events[known].envelope.same_content(&new.envelope) {
                Ok(Enqueued::Duplicate(id))
            } else {
                Err(Error::IdConflict { event_id: id.to_string() })
            };
        }
        let subscribed = self.subscribed(&new.envelope.topic).next().is_some();
        match unheard {
            Unheard::Skip if !subscribed => return Ok(Enqueued::Skipped(id)),
            Unheard::Refuse if !subscribed => {
                return Err(Error::Unheard { topic: new.envelope.topic.clone() });
            }
            _ => {}
        }
        let mut envelope = new.envelope.clone();
        let from_now = |duration: Duration| now + span(duration);
        envelope.deliver_at = new.delay.map(from_now).or(envelope.deliver_at);
        envelope.expire_at = new.expire_after.map(from_now).or(envelope.expire_at);
        let seq = self.store(envelope, now);
        Ok(if self.route_one(seq, now) { Enqueued::Accepted(id) } else { Enqueued::Unheard(id) })
    }

    pub(super) fn insert(&mut self, mut envelope: Envelope, now: OffsetDateTime) -> Result<()> {
        if self.sequences.contains_key(envelope.event_id.as_str()) {
            Err(Error::Store("the event id is taken".into()))
        } else {
            envelope.fill_from_metadata();
            self.store(envelope, now);
            Ok(())
        }
    }

    fn store(&mut self, envelope: Envelope, now: OffsetDateTime) -> i64 {
        let seq = self.next_sequence();
        self.sequences.insert(envelope.event_id.to_string(), seq);
        let event = EventRow { envelope: Arc::new(envelope), routing: Routing::New, created_at: now };
        self.events.insert(seq, event);
        seq
    }

    /// Creates the deliveries and expected consumers of an event from the current subscriptions. Returns false if it
    /// has no subscriber.
    fn route_one(&mut self, seq: i64, now: OffsetDateTime) -> bool {
        let envelope = Arc::clone(&self.events[&seq].envelope);
        let subscriptions: Vec<Subscription> = self.subscribed(&envelope.topic).cloned().collect();
        // Sets: a consumer may subscribe to both this topic and `*`, and all consumers behind the broker share its
        // lane.
        let lanes: BTreeSet<&str> = subscriptions.iter().filter_map(Subscription::lane).collect();
        let remote = subscriptions.iter().filter(|s| s.is_expected_remotely());
        let expected: BTreeSet<&str> = remote.map(|s| s.consumer.as_str()).collect();
        for lane in lanes {
            // A redrive may have created it before the event was routed.
            if self.delivery(seq, lane, None).is_none() {
                let due_at = envelope.deliver_at.unwrap_or(now);
                self.deliver(seq, lane, None, due_at);
            }
        }
        for consumer in expected {
            self.expect(seq, consumer, now);
        }
        let subscribed = !subscriptions.is_empty();
        if let Some(event) = self.events.get_mut(&seq) {
            event.routing = if subscribed { Routing::Routed } else { Routing::Unheard };
        }
        subscribed
    }

    /// Appends attempt 0: the consumer is expected to report.
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

    pub(super) fn deliver(&mut self, seq: i64, lane: &str, target: Option<&str>, due_at: OffsetDateTime) {
        let envelope = &self.events[&seq].envelope;
        let row = DeliveryRow {
            event_seq: seq,
            lane: lane.into(),
            target: target.map(Into::into),
            key: envelope.key.as_deref().map(Into::into),
            shard: envelope.shard(),
            status: DeliveryStatus::New,
            held: false,
            skipped_at: None,
            attempts: 0,
            recorded_before: self.last_attempt(seq, target.unwrap_or(lane)),
            due_at,
            lock: None,
            last_error: None,
        };
        let id = self.next_delivery(seq);
        self.delivery_ids.insert((seq, lane.into(), target.map(Into::into)), id);
        self.deliveries.insert(id, row);
    }

    pub(super) fn delivery(&self, seq: i64, lane: &str, target: Option<&str>) -> Option<DeliveryId> {
        let place = (seq, lane.to_owned(), target.map(Into::into));
        self.delivery_ids.get(&place).copied()
    }

    /// An event with its current rows.
    pub(super) fn record(&self, seq: i64, now: OffsetDateTime) -> Option<Record> {
        let event = self.events.get(&seq)?;
        let of_event = self.delivery_ids.range((seq, String::new(), None)..);
        let of_event = of_event.take_while(|((of, _, _), _)| *of == seq);
        let deliveries = of_event.map(|(_, id)| shown(*id, &self.deliveries[id])).collect();
        let attempts = self.consumptions.range((seq, String::new(), 0)..);
        let attempts = attempts.take_while(|((of, _, _), _)| *of == seq);
        let row = self.statuses.get(&seq);
        Some(Record {
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
        skipped_at: row.skipped_at,
    }
}
