//! Bulk operations: create, steer, claim, advance.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::state::{LeaseRow, OperationRow, State, span};
use crate::error::Result;
use crate::store::audit::Change;
use crate::store::decide::{Plan, Request};
use crate::store::operation::Tally;
use crate::store::{Advance, Cursor, NewOperation, Operation, OperationRuns, OperationState, Steer, Token};

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
                let operation = Operation {
                    request: new.clone(),
                    state: OperationState::Running,
                    done: 0,
                    failed: 0,
                    skipped: 0,
                    position: Some(Cursor(last + 1)),
                    owner: None,
                    created_at: now,
                    updated_at: now,
                    finished_at: None,
                };
                state.operations.push(OperationRow { operation: operation.clone(), lease: None });
                state.note(&Change::created(new), now);
                operation
            })
            .await)
    }

    async fn operation(&self, id: &str) -> Result<Option<Operation>> {
        Ok(self.read(|state, _| state.operation(id)))
    }

    async fn operations(&self, limit: u32) -> Result<Vec<Operation>> {
        let newest = |state: &State| {
            let newest_first = state.operations.iter().rev().take(limit as usize);
            newest_first.map(|row| row.operation.clone()).collect()
        };
        Ok(self.read(|state, _| newest(state)))
    }

    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>> {
        Ok(self
            .write(|state, now| {
                let (from, to) = steer.states();
                let row = state.operation_mut(id)?;
                let before = row.operation.state.as_str();
                let applies = from.contains(&before);
                if applies {
                    row.lease = None;
                    row.operation.owner = None;
                    row.operation.state = to;
                    row.operation.updated_at = now;
                    row.operation.finished_at = (to == OperationState::Cancelled).then_some(now);
                }
                let operation = row.operation.clone();
                if applies {
                    state.note(&Change::steered(before, to), now);
                }
                Some(operation)
            })
            .await)
    }

    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>> {
        Ok(self
            .write(|state, now| {
                let row = state.operations.iter_mut().find(|row| {
                    row.operation.state == OperationState::Running
                        && row.lease.as_ref().is_none_or(|lease| lease.until <= now)
                })?;
                let token = Token::fresh();
                row.lease = Some(LeaseRow { owner: owner.into(), token, until: now + span(lease) });
                row.operation.owner = Some(owner.into());
                Some((row.operation.clone(), token))
            })
            .await)
    }

    async fn advance_operation(&self, advance: &Advance<'_>) -> Result<Option<Operation>> {
        self.write(|state, now| {
            let mine = |row: &&mut OperationRow| {
                row.operation.state == OperationState::Running
                    && row.lease.as_ref().is_some_and(|lease| lease.token == advance.token)
            };
            let Some(row) = state.operation_mut(advance.id).filter(mine) else { return Ok(None) };
            let request = row.operation.request.clone();
            let records: Vec<_> = advance.events.iter().filter_map(|seq| state.record(*seq, now)).collect();
            let subscriptions = state.subscriptions(None);
            let (consumer, rules) = (request.consumer.as_deref(), &request.rules);
            let plan = Plan::of(&records, &Request { consumer, rules, subscriptions: &subscriptions }, now);
            state.carry_out(&plan, now)?;
            let tally = Tally::of(advance.events.len(), &plan.answers);
            let Some(row) = state.operation_mut(advance.id) else { return Ok(None) };
            row.lease.iter_mut().for_each(|lease| lease.until = now + span(advance.lease));
            let operation = &mut row.operation;
            operation.done += tally.done.unsigned_abs();
            operation.failed += tally.failed.unsigned_abs();
            operation.skipped += tally.skipped.unsigned_abs();
            operation.position = advance.next;
            operation.updated_at = now;
            if advance.next.is_none() {
                operation.state = OperationState::Done;
                operation.finished_at = Some(now);
            }
            Ok(Some(operation.clone()))
        })
        .await
    }

    async fn release_operation(&self, id: &str, token: Token) -> Result<bool> {
        Ok(self
            .write(|state, _| {
                let mine = |row: &&mut OperationRow| row.lease.as_ref().is_some_and(|lease| lease.token == token);
                let Some(row) = state.operation_mut(id).filter(mine) else { return false };
                row.lease = None;
                row.operation.owner = None;
                true
            })
            .await)
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
}
