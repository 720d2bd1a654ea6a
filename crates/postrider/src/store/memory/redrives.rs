//! Redrive, expiry and discard.

use std::sync::Arc;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::deliveries::{Failure, attempt};
use super::state::State;
use crate::entry::{DISCARDED, DeliveryStatus, Step};
use crate::error::{Error, Result};
use crate::redrive::{RedriveRules, Refusal, discardable};
use crate::status::EventStatus;
use crate::store::audit::Change;
use crate::store::decide::{Plan, Request, redrive_lane};
use crate::store::redrive::discard_reason;
use crate::store::{Delivery, Record, Redriven, Redrives, Routing, Wakeups};

#[async_trait]
impl Redrives for MemoryStore {
    async fn redrive(&self, event_id: &str, lane: &str, target: Option<&str>) -> Result<Redriven> {
        self.write(|state, now| {
            let Some(record) = state.find(event_id, now) else { return Ok(Redriven::UnknownEvent) };
            let (redriven, plan) = redrive_lane(&record, lane, target, now);
            state.carry_out(&plan, now)?;
            if matches!(redriven, Redriven::Due | Redriven::Made) {
                self.wake().poke(event_id, &record.envelope.topic);
            }
            Ok(redriven)
        })
        .await
    }

    async fn redrive_event(&self, event_id: &str, consumer: Option<&str>, rules: &RedriveRules) -> Result<Record> {
        self.write(|state, now| {
            let record = state.find(event_id, now).ok_or(Error::Refused(Refusal::UnknownEvent))?;
            let subscriptions = state.subscriptions(None);
            let before = record.clone();
            let request = Request { consumer, only_failed: None, rules, subscriptions: &subscriptions };
            let plan = Plan::of(&[record], &request, now);
            for (_, answer) in &plan.answers {
                answer.clone().map_err(Error::Refused)?;
            }
            state.carry_out(&plan, now)?;
            self.wake().poke(event_id, &before.envelope.topic);
            state.note_event(&before, now)
        })
        .await
    }

    async fn expire(&self, event_id: &str) -> Result<Record> {
        let refused = Error::Refused;
        self.write(|state, now| {
            let record = state.find(event_id, now).ok_or(refused(Refusal::UnknownEvent))?;
            let seq = record.sequence;
            match record.standing().status {
                EventStatus::Consumed => return Err(refused(Refusal::Consumed)),
                EventStatus::Expired => return Ok(record),
                _ => {}
            }
            for delivery in &record.deliveries {
                state.remove(delivery);
                if let Some(key) = &record.envelope.key {
                    state.free_followers(&delivery.lane, key, seq, now);
                }
            }
            if let Some(event) = state.events.get_mut(&seq) {
                // The router skips it from now on.
                event.routing = Routing::Routed;
            }
            state.statuses.entry(seq).or_default().kept.expired_at = Some(now);
            state.mark(seq);
            state.note_event(&record, now)
        })
        .await
    }

    async fn discard(&self, event_id: &str, consumer: &str, reason: &str) -> Result<Record> {
        let reason = discard_reason(reason)?;
        let refused = Error::Refused;
        self.write(|state, now| {
            let record = state.find(event_id, now).ok_or(refused(Refusal::UnknownEvent))?;
            let delivery = discardable(&record, consumer).map_err(refused)?;
            state.row_mut(delivery.id).step(Step::Discard)?;
            state.remove(delivery);
            let failure = Failure::new(&reason, Some(DISCARDED), false);
            state.append(record.sequence, attempt(consumer, Err(failure), now), None);
            if let Some(key) = &record.envelope.key {
                state.free_followers(&delivery.lane, key, record.sequence, now);
            }
            state.note_event(&record, now)
        })
        .await
    }
}

impl State {
    /// Writes the audit record of a change of an event, and returns the event.
    fn note_event(&mut self, before: &Record, now: OffsetDateTime) -> Result<Record> {
        let after = self.record(before.sequence, now).ok_or(Error::Refused(Refusal::UnknownEvent))?;
        self.note(&Change::event(before, &after), now);
        Ok(after)
    }

    fn remove(&mut self, delivery: &Delivery) {
        self.deliveries.remove(&delivery.id);
        self.delivery_ids.remove(&(delivery.id.sequence, delivery.lane.clone(), delivery.target.clone()));
    }

    pub(super) fn find(&self, event_id: &str, now: OffsetDateTime) -> Option<Record> {
        self.record(*self.sequences.get(event_id)?, now)
    }

    /// Applies a plan.
    pub(super) fn carry_out(&mut self, plan: &Plan, now: OffsetDateTime) -> Result<()> {
        for expected in &plan.expected {
            self.expect(expected.seq, &expected.consumer, now);
        }
        for due in &plan.deliveries {
            self.make_due(due.seq, &due.lane, due.target.as_deref(), now)?;
        }
        for (lane, key, seq) in &plan.keys {
            self.free_followers(lane, key, *seq, now);
        }
        for seq in &plan.seqs {
            let kept = &mut self.statuses.entry(*seq).or_default().kept;
            kept.redrives += 1;
            kept.redriven_at = Some(now);
            self.mark(*seq);
        }
        Ok(())
    }

    /// Makes a delivery due now, or inserts it, and releases the deliveries parked behind it.
    pub(super) fn make_due(
        &mut self,
        seq: i64,
        lane: &str,
        target: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<Redriven> {
        let redriven = match self.delivery(seq, lane, target) {
            None => {
                self.deliver(seq, lane, target, now);
                Redriven::Made
            }
            Some(id) if !self.deliveries[&id].is_free(now) => return Ok(Redriven::InProgress),
            Some(id) => {
                let recorded_before = self.last_attempt(seq, target.unwrap_or(lane));
                let row = self.row_mut(id);
                row.recorded_before = recorded_before;
                if row.lock.is_some() {
                    // Its lease has ended.
                    row.step(Step::Release)?;
                }
                row.step(Step::Redrive)?;
                row.held = false;
                row.skipped_at = None;
                row.due_at = now;
                Redriven::Due
            }
        };
        let envelope = Arc::clone(&self.events[&seq].envelope);
        if let Some(key) = &envelope.key {
            self.free_followers(lane, key, seq, now);
        }
        Ok(redriven)
    }

    /// Releases the deliveries that were parked behind one that is due again.
    pub(super) fn free_followers(&mut self, lane: &str, key: &str, seq: i64, now: OffsetDateTime) {
        let events = &self.events;
        for row in self.deliveries.values_mut() {
            if row.lane != lane || row.key.as_deref() != Some(key) || row.event_seq <= seq {
                continue;
            }
            if row.lock.is_some() || row.status == DeliveryStatus::Dead {
                continue;
            }
            row.held = false;
            // Only parked ones: not attempted, and not delayed by their own event.
            let delayed = events[&row.event_seq].envelope.deliver_at;
            if row.attempts == 0 && delayed.is_none_or(|at| at <= now) {
                row.due_at = row.due_at.min(now);
            }
        }
    }
}
