//! Deliveries: claim, claim_keyed, extend, settle, retry, bury, release, redrive. Each checks the token first and
//! changes the state through [`entry::step`](crate::entry::step).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::{DeliveryRow, Lock, State, span};
use crate::entry::{DeliveryStatus, Step};
use crate::envelope::Envelope;
use crate::error::Result;
use crate::limits;
use crate::store::{
    Buried, Claim, Claimed, Consumption, DeadHead, Deliveries, DeliveryId, Failed, History, Lease, Token,
};

#[async_trait]
impl Deliveries for MemoryStore {
    async fn claim(&self, claim: &Claim) -> Result<Lease> {
        claim.check()?;
        self.write(|state, now| {
            let wanted = |row: &DeliveryRow| {
                row.key.is_none()
                    && row.lane == claim.lane
                    && claim.shards.contains(row.shard)
                    && row.is_in_sight()
                    && row.is_ready(now)
            };
            let ready = state.deliveries.iter().filter(|(_, row)| wanted(row));
            let mut ready: Vec<_> = ready.map(|(id, row)| (row.due_at, *id)).collect();
            ready.sort_unstable();
            let taken = ready.into_iter().map(|(_, id)| id).take(claim.limit as usize).collect();
            state.lease(taken, claim, now)
        })
        .await
    }

    async fn claim_keyed(&self, claim: &Claim, dead_head: DeadHead) -> Result<Lease> {
        claim.check()?;
        self.write(|state, now| {
            let mut keys = state.keys_of(claim);
            for ids in keys.values_mut() {
                // A person lets the key go on without them.
                ids.retain(|id| state.deliveries[id].skipped_at.is_none());
                if dead_head == DeadHead::Skip {
                    // The policy may have changed to `Skip`: deliveries held behind dead ones are claimable again.
                    ids.retain(|id| {
                        state.row_mut(*id).held = false;
                        state.deliveries[id].status != DeliveryStatus::Dead
                    });
                }
            }
            let mut runs = Vec::new();
            for ids in keys.values() {
                state.park(ids, now);
                let run = ids.iter().take_while(|id| state.deliveries[id].is_ready(now));
                let run: Vec<DeliveryId> = run.copied().collect();
                if let Some(head) = run.first() {
                    runs.push((state.deliveries[head].due_at, run));
                }
            }
            runs.sort_by_key(|(due_at, run)| (*due_at, run[0]));
            let taken = runs.into_iter().flat_map(|(_, run)| run);
            state.lease(taken.take(claim.limit as usize).collect(), claim, now)
        })
        .await
    }

    async fn extend(&self, token: Token, deliveries: &[DeliveryId], lease: Duration) -> Result<Vec<DeliveryId>> {
        Ok(self
            .write(|state, now| {
                let ids = deliveries;
                let mine = state.mine(token, ids.iter().copied());
                for id in &mine {
                    if let Some(lock) = &mut state.row_mut(*id).lock {
                        lock.until = now + span(lease);
                    }
                }
                mine
            })
            .await)
    }

    async fn settle(&self, token: Token, deliveries: &[DeliveryId], history: History) -> Result<Vec<DeliveryId>> {
        self.write(|state, now| state.settle(token, deliveries, history, now)).await
    }

    async fn retry(&self, token: Token, failed: &[Failed], history: History) -> Result<Vec<DeliveryId>> {
        self.write(|state, now| {
            let mine = state.mine(token, failed.iter().map(|failed| failed.id));
            for failed in failed.iter().filter(|failed| mine.contains(&failed.id)) {
                let row = state.row_mut(failed.id);
                row.step(Step::Retry)?;
                row.due_at = now + span(failed.after);
                let failure = Failure::new(&failed.error, failed.code.as_deref(), true);
                state.end_of_run(failed.id, token, &mine, failure, history, now)?;
            }
            Ok(mine)
        })
        .await
    }

    async fn bury(&self, token: Token, buried: &[Buried], history: History) -> Result<Vec<DeliveryId>> {
        self.write(|state, now| {
            let mine = state.mine(token, buried.iter().map(|buried| buried.id));
            for buried in buried.iter().filter(|buried| mine.contains(&buried.id)) {
                let row = state.row_mut(buried.id);
                row.step(Step::Bury)?;
                row.attempts -= u32::from(!buried.tried);
                let failure = Failure::new(&buried.error, buried.code.as_deref(), false);
                state.end_of_run(buried.id, token, &mine, failure, history, now)?;
            }
            Ok(mine)
        })
        .await
    }

    async fn release(&self, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>> {
        self.write(|state, _| state.release(token, deliveries)).await
    }
}

impl State {
    /// The keys of the claim, each with its deliveries in the order of their events.
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

    /// Parks deliveries that cannot move: one behind a dead delivery is held, one behind a later due time gets that
    /// due time.
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

    fn lease(&mut self, mut taken: Vec<DeliveryId>, claim: &Claim, now: OffsetDateTime) -> Result<Lease> {
        let token = Token::fresh();
        taken.sort_unstable();
        let size = |id: &DeliveryId| self.events[&self.deliveries[id].event_seq].envelope.payload.len();
        taken.truncate(claim.fitting(taken.iter().map(size)));
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
        Ok(Lease { token, deliveries })
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
                    // An attempt of the lane, not of its target: the broker has confirmed it, but no consumer has
                    // received it yet.
                    self.append(row.event_seq, attempt(&row.lane, Ok(()), now), None);
                }
                self.delivery_ids.remove(&(row.event_seq, row.lane, row.target));
            }
        }
        Ok(settled)
    }

    /// Whether an earlier delivery of the key exists that is not settled in the same call. A dead one was skipped.
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

    /// Stores a failure and releases the rest of its run that is not in the same call.
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

    /// The deliveries that the token holds, without duplicates.
    pub(super) fn mine(&self, token: Token, ids: impl IntoIterator<Item = DeliveryId>) -> Vec<DeliveryId> {
        let belongs = |id: &DeliveryId| self.deliveries.get(id).is_some_and(|row| row.belongs_to(token));
        let mut mine: Vec<DeliveryId> = ids.into_iter().filter(belongs).collect();
        mine.sort_unstable();
        mine.dedup();
        mine
    }

    pub(super) fn row_mut(&mut self, id: DeliveryId) -> &mut DeliveryRow {
        // Every id comes from the same table, under the same lock.
        self.deliveries.get_mut(&id).expect("the delivery is there")
    }
}

pub(super) struct Failure {
    error: String,
    code: Option<String>,
    will_retry: bool,
}

impl Failure {
    pub(super) fn new(error: &str, code: Option<&str>, will_retry: bool) -> Self {
        Self { error: limits::error_text(error), code: code.map(limits::error_code), will_retry }
    }
}

/// An attempt of a consumer at this time.
pub(super) fn attempt(consumer: &str, outcome: std::result::Result<(), Failure>, now: OffsetDateTime) -> Consumption {
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
