//! Deliveries: claim, claim_keyed, extend, settle, retry, bury, release, redrive. Each checks the token first and
//! takes its step through [`entry::step`](crate::entry::step).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;

use super::state::{DeliveryRow, Lock, State, span};
use crate::entry::{DeliveryStatus, Step};
use crate::envelope::Envelope;
use crate::error::Result;
use crate::limits;
use crate::store::{
    Buried, Claim, Claimed, Consumption, DeadHead, DeliveryId, Failed, History, Lease, Redriven, Token,
};

impl State {
    pub(super) fn claim(&mut self, claim: &Claim, now: OffsetDateTime) -> Result<Lease> {
        let wanted = |row: &DeliveryRow| {
            row.key.is_none()
                && row.lane == claim.lane
                && claim.shards.contains(row.shard)
                && row.is_in_sight()
                && row.is_ready(now)
        };
        let ready = self.deliveries.iter().filter(|(_, row)| wanted(row));
        let mut ready: Vec<_> = ready.map(|(id, row)| (row.due_at, *id)).collect();
        ready.sort_unstable();
        let taken = ready.into_iter().map(|(_, id)| id).take(claim.limit as usize).collect();
        self.lease(taken, claim, now)
    }

    pub(super) fn claim_keyed(&mut self, claim: &Claim, dead_head: DeadHead, now: OffsetDateTime) -> Result<Lease> {
        let mut keys = self.keys_of(claim);
        if dead_head == DeadHead::Skip {
            for ids in keys.values_mut() {
                // The policy may have been changed: what waited behind dead deliveries flows.
                ids.retain(|id| {
                    self.row_mut(*id).held = false;
                    self.deliveries[id].status != DeliveryStatus::Dead
                });
            }
        }
        let mut runs = Vec::new();
        for ids in keys.values() {
            self.park(ids, now);
            let run = ids.iter().take_while(|id| self.deliveries[id].is_ready(now));
            let run: Vec<DeliveryId> = run.copied().collect();
            if let Some(head) = run.first() {
                runs.push((self.deliveries[head].due_at, run));
            }
        }
        runs.sort_by_key(|(due_at, run)| (*due_at, run[0]));
        let taken = runs.into_iter().flat_map(|(_, run)| run);
        self.lease(taken.take(claim.limit as usize).collect(), claim, now)
    }

    /// The claim's keys, each with its deliveries in the order of their events.
    fn keys_of(&self, claim: &Claim) -> BTreeMap<Arc<str>, Vec<DeliveryId>> {
        let mut keys: BTreeMap<Arc<str>, Vec<DeliveryId>> = BTreeMap::new();
        for (id, row) in &self.deliveries {
            if let Some(key) = &row.key
                && row.lane == claim.lane
                && claim.shards.contains(row.shard)
            {
                keys.entry(Arc::clone(key)).or_default().push(*id);
            }
        }
        for ids in keys.values_mut() {
            ids.sort_by_key(|id| (self.deliveries[id].event_seq, *id));
        }
        keys
    }

    /// Takes what cannot move out of sight: behind a dead delivery it is held, behind one that is due later it
    /// becomes due with it.
    fn park(&mut self, key: &[DeliveryId], now: OffsetDateTime) {
        let Some((head, followers)) = key.split_first() else {
            return;
        };
        let head = &self.deliveries[head];
        let (dead, due_at) = (head.status == DeliveryStatus::Dead, head.due_at);
        if head.lock.is_some() || !(dead || due_at > now) {
            return;
        }
        for id in followers {
            let row = self.row_mut(*id);
            if row.lock.is_none() && row.is_ready(now) {
                row.held = dead;
                row.due_at = row.due_at.max(due_at);
            }
        }
    }

    fn lease(&mut self, taken: Vec<DeliveryId>, claim: &Claim, now: OffsetDateTime) -> Result<Lease> {
        let token = Token::fresh();
        let mut deliveries = Vec::with_capacity(taken.len());
        for id in taken {
            let row = self.row_mut(id);
            row.step(Step::Claim)?;
            row.held = false;
            row.lock = Some(Lock { token, owner: claim.owner.clone(), since: now, until: now + span(claim.lease) });
            let row = &self.deliveries[&id];
            let envelope = &self.events[&row.event_seq].envelope;
            deliveries.push(Claimed {
                id,
                target: row.target.clone(),
                attempt: row.attempts,
                expired: has_expired(envelope, now),
                envelope: Arc::clone(envelope),
            });
        }
        deliveries.sort_by_key(|claimed| claimed.id);
        Ok(Lease { token, deliveries })
    }

    pub(super) fn extend(
        &mut self,
        token: Token,
        ids: &[DeliveryId],
        lease: Duration,
        now: OffsetDateTime,
    ) -> Vec<DeliveryId> {
        let mine = self.mine(token, ids.iter().copied());
        for id in &mine {
            if let Some(lock) = &mut self.row_mut(*id).lock {
                lock.until = now + span(lease);
            }
        }
        mine
    }

    pub(super) fn settle(
        &mut self,
        token: Token,
        ids: &[DeliveryId],
        history: History,
        now: OffsetDateTime,
    ) -> Result<Vec<DeliveryId>> {
        let mine = self.mine(token, ids.iter().copied());
        let settled: Vec<DeliveryId> = mine.iter().copied().filter(|id| !self.is_out_of_order(*id, &mine)).collect();
        for id in &settled {
            self.row_mut(*id).step(Step::Settle)?;
            if let Some(row) = self.deliveries.remove(id) {
                if history == History::Keep {
                    // Of the lane, not of its target: what the broker has confirmed, no consumer has had yet.
                    self.append(row.event_seq, attempt(&row.lane, Ok(()), now), None);
                }
                self.delivery_ids.remove(&(row.event_seq, row.lane, row.target));
            }
        }
        Ok(settled)
    }

    /// Whether an earlier delivery of the key is still there, and not settled with it. A dead one was skipped.
    fn is_out_of_order(&self, id: DeliveryId, together: &[DeliveryId]) -> bool {
        let row = &self.deliveries[&id];
        row.key.is_some()
            && self.deliveries.iter().any(|(other, earlier)| {
                earlier.lane == row.lane
                    && earlier.key == row.key
                    && earlier.event_seq < row.event_seq
                    && earlier.status != DeliveryStatus::Dead
                    && !together.contains(other)
            })
    }

    pub(super) fn retry(
        &mut self,
        token: Token,
        failed: &[Failed],
        history: History,
        now: OffsetDateTime,
    ) -> Result<Vec<DeliveryId>> {
        let mine = self.mine(token, failed.iter().map(|failed| failed.id));
        for failed in failed.iter().filter(|failed| mine.contains(&failed.id)) {
            let row = self.row_mut(failed.id);
            row.step(Step::Retry)?;
            row.due_at = now + span(failed.after);
            let failure = Failure::new(&failed.error, failed.code.as_deref(), true);
            self.end_of_run(failed.id, token, &mine, failure, history, now)?;
        }
        Ok(mine)
    }

    pub(super) fn bury(
        &mut self,
        token: Token,
        buried: &[Buried],
        history: History,
        now: OffsetDateTime,
    ) -> Result<Vec<DeliveryId>> {
        let mine = self.mine(token, buried.iter().map(|buried| buried.id));
        for buried in buried.iter().filter(|buried| mine.contains(&buried.id)) {
            let row = self.row_mut(buried.id);
            row.step(Step::Bury)?;
            row.attempts -= u32::from(!buried.tried);
            let failure = Failure::new(&buried.error, buried.code.as_deref(), false);
            self.end_of_run(buried.id, token, &mine, failure, history, now)?;
        }
        Ok(mine)
    }

    /// Writes a failure down and releases the rest of its run, as far as it is not in the same call.
    fn end_of_run(
        &mut self,
        id: DeliveryId,
        token: Token,
        same_call: &[DeliveryId],
        failure: Failure,
        history: History,
        now: OffsetDateTime,
    ) -> Result<()> {
        let row = self.row_mut(id);
        row.last_error = Some(failure.error.clone());
        let row = row.clone();
        let rest: Vec<DeliveryId> = self
            .deliveries
            .iter()
            .filter(|(_, later)| {
                later.belongs_to(token)
                    && later.lane == row.lane
                    && later.key.is_some()
                    && later.key == row.key
                    && later.event_seq > row.event_seq
            })
            .map(|(id, _)| *id)
            .filter(|id| !same_call.contains(id))
            .collect();
        self.release(token, &rest)?;
        if history == History::Keep {
            self.append(row.event_seq, attempt(row.consumer(), Err(failure), now), None);
        }
        Ok(())
    }

    pub(super) fn release(&mut self, token: Token, ids: &[DeliveryId]) -> Result<Vec<DeliveryId>> {
        let mine = self.mine(token, ids.iter().copied());
        for id in &mine {
            self.row_mut(*id).step(Step::Release)?;
        }
        Ok(mine)
    }

    pub(super) fn redrive(
        &mut self,
        event_id: &str,
        lane: &str,
        target: &str,
        now: OffsetDateTime,
    ) -> Result<Redriven> {
        let Some(&seq) = self.sequences.get(event_id) else {
            return Ok(Redriven::UnknownEvent);
        };
        let envelope = Arc::clone(&self.events[&seq].envelope);
        if has_expired(&envelope, now) {
            return Ok(Redriven::Expired);
        }
        let redriven = self.make_due(seq, lane, target, now)?;
        if redriven != Redriven::InProgress {
            self.note_redrive(seq, now);
        }
        Ok(redriven)
    }

    /// Makes a delivery due now, or makes it, and lets flow what waited behind it.
    pub(super) fn make_due(&mut self, seq: i64, lane: &str, target: &str, now: OffsetDateTime) -> Result<Redriven> {
        let redriven = match self.delivery(seq, lane, target) {
            None => {
                self.deliver(seq, lane, target, now);
                Redriven::Made
            }
            Some(id) if !self.deliveries[&id].is_free(now) => return Ok(Redriven::InProgress),
            Some(id) => {
                let row = self.row_mut(id);
                if row.lock.is_some() {
                    // Its lease ran out: nobody's any more.
                    row.step(Step::Release)?;
                }
                row.step(Step::Redrive)?;
                row.held = false;
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

    /// Lets flow what was parked behind a delivery that is due again.
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
            // Only those that were made to wait: not tried, and not delayed by their own event.
            let delayed = events[&row.event_seq].envelope.deliver_at;
            if row.attempts == 0 && delayed.is_none_or(|at| at <= now) {
                row.due_at = row.due_at.min(now);
            }
        }
    }

    pub(super) fn oldest_due(&self, lane: &str, now: OffsetDateTime) -> Option<Duration> {
        let of_lane = self.deliveries.values().filter(|row| row.lane == lane && row.is_in_sight());
        let oldest = of_lane.map(|row| row.due_at).filter(|due_at| *due_at <= now).min();
        oldest.map(|due_at| (now - due_at).unsigned_abs())
    }

    pub(super) fn oldest_pending(&self, now: OffsetDateTime) -> Option<Duration> {
        let in_sight = self.deliveries.values().filter(|row| row.is_in_sight());
        let oldest = in_sight.map(|row| row.due_at).filter(|due_at| *due_at <= now).min();
        oldest.map(|due_at| (now - due_at).unsigned_abs())
    }

    pub(super) fn next_due(&self, lane: &str, now: OffsetDateTime) -> Option<Duration> {
        let waiting = self.deliveries.values();
        let waiting = waiting.filter(|row| row.lane == lane && row.is_in_sight());
        let ready_at = waiting.map(|row| match &row.lock {
            Some(lock) => lock.until.max(row.due_at),
            None => row.due_at,
        });
        ready_at.min().map(|at| (at.max(now) - now).unsigned_abs())
    }

    /// Those of the deliveries that the token holds, each once.
    pub(super) fn mine(&self, token: Token, ids: impl IntoIterator<Item = DeliveryId>) -> Vec<DeliveryId> {
        let belongs = |id: &DeliveryId| self.deliveries.get(id).is_some_and(|row| row.belongs_to(token));
        let mut mine: Vec<DeliveryId> = ids.into_iter().filter(belongs).collect();
        mine.sort_unstable();
        mine.dedup();
        mine
    }

    fn row_mut(&mut self, id: DeliveryId) -> &mut DeliveryRow {
        // Every id comes from the table itself, under the same lock.
        self.deliveries.get_mut(&id).expect("the delivery is there")
    }
}

struct Failure {
    error: String,
    code: Option<String>,
    will_retry: bool,
}

impl Failure {
    fn new(error: &str, code: Option<&str>, will_retry: bool) -> Self {
        Self { error: limits::error_text(error), code: code.map(limits::error_text), will_retry }
    }
}

/// An attempt of a consumer, now.
fn attempt(consumer: &str, outcome: std::result::Result<(), Failure>, now: OffsetDateTime) -> Consumption {
    let success = outcome.is_ok();
    let failure = outcome.err();
    Consumption {
        consumer: consumer.into(),
        attempt: 0,
        success: Some(success),
        will_retry: failure.as_ref().is_some_and(|failure| failure.will_retry),
        consumed_at: Some(now),
        error: failure.as_ref().map(|failure| failure.error.clone()),
        code: failure.and_then(|failure| failure.code),
        created_at: now,
    }
}

fn has_expired(envelope: &Envelope, now: OffsetDateTime) -> bool {
    envelope.expire_at.is_some_and(|at| at <= now)
}
