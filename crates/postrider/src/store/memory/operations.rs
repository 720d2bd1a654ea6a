//! Bulk operations: create, steer, claim, advance.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::{ItemRow, LeaseRow, OperationRow, State, span};
use crate::error::Result;
use crate::limits;
use crate::store::audit::{Change, explain};
use crate::store::decide::{LOOKED_AT, Plan, request};
use crate::store::{
    Advance, Cursor, ItemList, ItemOutcome, NewOperation, Operation, OperationItem, OperationRuns, OperationState,
    Steer, Token,
};

#[async_trait]
impl OperationRuns for MemoryStore {
    async fn create_operation(&self, new: &NewOperation) -> Result<Operation> {
        new.check()?;
        Ok(self
            .write(|state, now| {
                if let Some(known) = state.operation(&new.id) {
                    return known;
                }
                let last = state.events.keys().next_back().copied().unwrap_or_default();
                state.last_operation += 1;
                let operation = Operation::new(new, state.last_operation, Cursor(last + 1), now);
                let row = OperationRow { operation: operation.clone(), lease: None, look_at: Some(now) };
                state.operations.push(row);
                state.note(&Change::created(new), now);
                operation
            })
            .await)
    }

    async fn operation(&self, id: &str) -> Result<Option<Operation>> {
        Ok(self.read(|state, _| state.operation(id)))
    }

    async fn operations(&self, before: Option<i64>, limit: u32) -> Result<Vec<Operation>> {
        let newest = |state: &State| {
            let all = state.operations.iter().rev().map(|row| &row.operation);
            let older = all.filter(|operation| before.is_none_or(|before| operation.number < before));
            older.take(limit as usize).cloned().collect()
        };
        Ok(self.read(|state, _| newest(state)))
    }

    async fn operation_items(&self, list: &ItemList) -> Result<Vec<OperationItem>> {
        limits::page(list.limit)?;
        Ok(self.read(|state, _| {
            let Some(operation) = state.operation(&list.operation) else { return Vec::new() };
            let items = state.items.range((operation.number, list.after + 1)..=(operation.number, i64::MAX));
            let wanted = items.filter(|(_, row)| list.outcome.is_none_or(|outcome| outcome == row.item.outcome));
            wanted.take(list.limit as usize).map(|(_, row)| row.item.clone()).collect()
        }))
    }

    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>> {
        Ok(self
            .write(|state, now| {
                let row = state.operation_mut(id)?;
                let before = row.operation.state.as_str();
                let applies = row.operation.steer(steer, now);
                if applies {
                    row.operation.updated_at = now;
                    // Whoever steers it sees the results at once.
                    row.set_free(row.operation.pause(0, now).map(|_| Duration::ZERO), now);
                }
                let operation = row.operation.clone();
                if applies {
                    state.note(&Change::steered(before, operation.state), now);
                }
                Some(operation)
            })
            .await)
    }

    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>> {
        Ok(self
            .write(|state, now| {
                let is_free = |row: &&mut OperationRow| {
                    row.look_at.is_some_and(|at| at <= now) && row.lease.as_ref().is_none_or(|lease| lease.until <= now)
                };
                let due = state.operations.iter_mut().filter(is_free);
                let row = due.min_by_key(|row| (row.look_at, row.operation.number))?;
                let token = Token::fresh();
                row.lease = Some(LeaseRow { owner: owner.into(), token, until: now + span(lease) });
                row.operation.owner = Some(owner.into());
                Some((row.operation.clone(), token))
            })
            .await)
    }

    async fn advance_operation(&self, advance: &Advance<'_>) -> Result<Option<Operation>> {
        self.write(|state, now| {
            let mine = |row: &&mut OperationRow| row.belongs_to(advance.token);
            let Some(row) = state.operation_mut(advance.id).filter(mine) else { return Ok(None) };
            let mut operation = row.operation.clone();
            let before = operation.state;
            if let Some(page) = advance.page.as_ref().filter(|page| page.follows(&operation)) {
                for (sequence, event_id) in &page.events {
                    let (sequence, event_id) = (*sequence, event_id.clone());
                    let item = OperationItem { sequence, event_id, step: 0, outcome: ItemOutcome::Planned, rule: None };
                    state.items.insert((operation.number, sequence), ItemRow { item, watched: None });
                }
                operation.plan(page);
            }
            if operation.wants_look(now) {
                state.look(&mut operation, now);
                operation.turn(now);
            }
            let allowed = operation.allowance(advance.batch) as usize;
            if allowed > 0 {
                state.redrive_planned(&mut operation, allowed, now)?;
            }
            operation.turn(now);
            operation.updated_at = now;
            let Some(row) = state.operation_mut(advance.id) else { return Ok(None) };
            row.lease.iter_mut().for_each(|lease| lease.until = now + span(advance.lease));
            row.operation = operation.clone();
            if let (Some(why), OperationState::Running) = (&operation.progress.stopped_because, before) {
                explain(Some(why), None);
                state.note(&Change::steered(before.as_str(), operation.state), now);
            }
            Ok(Some(operation))
        })
        .await
    }

    async fn release_operation(&self, id: &str, token: Token, pause: Duration) -> Result<bool> {
        Ok(self
            .write(|state, now| {
                let mine = |row: &&mut OperationRow| row.belongs_to(token);
                let Some(row) = state.operation_mut(id).filter(mine) else { return false };
                row.set_free(row.operation.pause(0, now).map(|_| pause), now);
                true
            })
            .await)
    }
}

impl OperationRow {
    fn belongs_to(&self, token: Token) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.token == token)
    }

    /// No worker holds it any more, and none looks at it before the pause has passed.
    fn set_free(&mut self, pause: Option<Duration>, now: OffsetDateTime) {
        self.lease = None;
        self.operation.owner = None;
        self.look_at = pause.map(|pause| now + span(pause));
    }
}

impl State {
    pub(super) fn operation(&self, id: &str) -> Option<Operation> {
        let row = self.operations.iter().find(|row| row.operation.request.id == id);
        row.map(|row| row.operation.clone())
    }

    fn operation_mut(&mut self, id: &str) -> Option<&mut OperationRow> {
        self.operations.iter_mut().find(|row| row.operation.request.id == id)
    }

    /// Reads what came of some of the events without a result.
    fn look(&mut self, operation: &mut Operation, now: OffsetDateTime) {
        let from = (operation.number, operation.progress.looked_to + 1);
        let items = self.items.range(from..=(operation.number, i64::MAX));
        let open = items.filter(|(_, row)| row.item.outcome == ItemOutcome::Open);
        let open: Vec<_> = open.take(LOOKED_AT as usize).map(|(key, row)| (*key, row.clone())).collect();
        let mut seen = Vec::new();
        for (key, row) in &open {
            let Some(record) = self.record(key.1, now) else { continue };
            let outcome = row.watched.clone().unwrap_or_default().outcome(&record);
            seen.push((row.item.step, outcome));
            if let Some(row) = self.items.get_mut(key) {
                row.item.outcome = outcome;
            }
        }
        let last = open.last().map(|(key, _)| key.1).filter(|_| open.len() == LOOKED_AT as usize);
        operation.observe(&seen, last, now);
    }

    fn redrive_planned(&mut self, operation: &mut Operation, limit: usize, now: OffsetDateTime) -> Result<()> {
        let items = self.items.range((operation.number, 0)..=(operation.number, i64::MAX));
        let planned = items.filter(|(_, row)| row.item.outcome == ItemOutcome::Planned).map(|((_, seq), _)| *seq);
        let planned: Vec<i64> = if operation.request.oldest_first {
            planned.take(limit).collect()
        } else {
            planned.rev().take(limit).collect()
        };
        let records: Vec<_> = planned.iter().filter_map(|seq| self.record(*seq, now)).collect();
        let (asked, subscriptions) = (operation.request.clone(), self.subscriptions(None));
        let plan = Plan::of(&records, &request(&asked, &subscriptions), now);
        self.carry_out(&plan, now)?;
        for noted in operation.redriven(&planned, &plan.answers) {
            if let Some(row) = self.items.get_mut(&(operation.number, noted.sequence)) {
                row.item.step = noted.step;
                row.item.outcome = noted.outcome;
                row.item.rule = noted.rule.map(Into::into);
                row.watched = noted.watched;
            }
        }
        Ok(())
    }
}
