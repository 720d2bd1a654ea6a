//! Bulk operations: create, steer, claim, advance.

use std::time::Duration;

use time::OffsetDateTime;

use super::state::{LeaseRow, OperationRow, State, span};
use crate::error::Result;
use crate::store::operation::Tally;
use crate::store::{Advance, Cursor, NewOperation, Operation, OperationState, Steer, Token};

impl State {
    pub(super) fn create_operation(&mut self, new: &NewOperation, now: OffsetDateTime) -> Operation {
        if let Some(known) = self.operation(&new.id) {
            return known;
        }
        let last = self.events.keys().next_back().copied().unwrap_or_default();
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
        self.operations.push(OperationRow { operation: operation.clone(), lease: None });
        operation
    }

    pub(super) fn operation(&self, id: &str) -> Option<Operation> {
        let row = self.operations.iter().find(|row| row.operation.request.id == id);
        row.map(|row| row.operation.clone())
    }

    fn operation_mut(&mut self, id: &str) -> Option<&mut OperationRow> {
        self.operations.iter_mut().find(|row| row.operation.request.id == id)
    }

    pub(super) fn steer_operation(&mut self, id: &str, steer: Steer, now: OffsetDateTime) -> Option<Operation> {
        let (from, to) = steer.states();
        let row = self.operation_mut(id)?;
        if from.contains(&row.operation.state.as_str()) {
            row.lease = None;
            row.operation.owner = None;
            row.operation.state = to;
            row.operation.updated_at = now;
            row.operation.finished_at = (to == OperationState::Cancelled).then_some(now);
        }
        Some(row.operation.clone())
    }

    pub(super) fn claim_operation(
        &mut self,
        owner: &str,
        lease: Duration,
        now: OffsetDateTime,
    ) -> Option<(Operation, Token)> {
        let row = self.operations.iter_mut().find(|row| {
            row.operation.state == OperationState::Running && row.lease.as_ref().is_none_or(|lease| lease.until <= now)
        })?;
        let token = Token::fresh();
        row.lease = Some(LeaseRow { owner: owner.into(), token, until: now + span(lease) });
        row.operation.owner = Some(owner.into());
        Some((row.operation.clone(), token))
    }

    pub(super) fn advance_operation(
        &mut self,
        advance: &Advance<'_>,
        now: OffsetDateTime,
    ) -> Result<Option<Operation>> {
        let mine = |row: &&mut OperationRow| {
            row.operation.state == OperationState::Running
                && row.lease.as_ref().is_some_and(|lease| lease.token == advance.token)
        };
        let Some(row) = self.operation_mut(advance.id).filter(mine) else { return Ok(None) };
        let request = row.operation.request.clone();
        let mut answers = Vec::new();
        for seq in advance.events {
            answers.push((*seq, self.redrive_by_rule(*seq, request.consumer.as_deref(), &request.rules, now)?));
        }
        let tally = Tally::of(advance.events.len(), &answers);
        let Some(row) = self.operation_mut(advance.id) else { return Ok(None) };
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
    }

    pub(super) fn release_operation(&mut self, id: &str, token: Token) -> bool {
        let mine = |row: &&mut OperationRow| row.lease.as_ref().is_some_and(|lease| lease.token == token);
        let Some(row) = self.operation_mut(id).filter(mine) else { return false };
        row.lease = None;
        row.operation.owner = None;
        true
    }
}
