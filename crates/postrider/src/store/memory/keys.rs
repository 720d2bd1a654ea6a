//! Exactly-once effects: the inbox and idempotency keys.

use std::time::Duration;

use time::OffsetDateTime;

use super::state::{InboxRow, KeyRow, KeyStatus, State, span};
use crate::error::{Error, Result};
use crate::limits;
use crate::store::{Completion, DeliveryId, Handled, Key, KeyState, Receipt, Token};

impl State {
    pub(super) fn receive(&mut self, receipt: &Receipt<'_>, now: OffsetDateTime) -> bool {
        let id = (receipt.consumer.to_owned(), receipt.event_id.to_owned());
        if self.inbox.contains_key(&id) {
            return false;
        }
        let row = InboxRow { received_at: now, idempotency_key: receipt.idempotency_key.map(Into::into), result: None };
        self.inbox.insert(id, row);
        true
    }

    pub(super) fn complete(&mut self, completion: &Completion<'_>, now: OffsetDateTime) -> Result<()> {
        for completed in completion.completed {
            let id = (completion.consumer.to_owned(), completed.event_id.to_owned());
            let received = self.inbox.get_mut(&id).ok_or(Error::LeaseLost)?;
            if let Some(result) = completed.result {
                received.result = Some(result.into());
            }
        }
        let deliveries: Vec<_> = completion.completed.iter().map(|completed| completed.delivery).collect();
        // A renamed consumer: the inbox rows of this transaction have the old name.
        let moved = |id: &DeliveryId| self.deliveries.get(id).is_some_and(|row| row.lane != completion.consumer);
        if deliveries.iter().any(moved) {
            return Err(Error::LeaseLost);
        }
        let settled = self.settle(completion.token, &deliveries, completion.history, now)?;
        if settled.len() == deliveries.len() { Ok(()) } else { Err(Error::LeaseLost) }
    }

    pub(super) fn confirm_received(&mut self, consumer: &str, handled: &[Handled<'_>]) -> Result<()> {
        for Handled { event_id, result } in handled {
            let id = (consumer.to_owned(), (*event_id).to_owned());
            let row = self.inbox.get_mut(&id).ok_or_else(Error::not_received)?;
            if let Some(result) = result {
                row.result = Some((*result).into());
            }
        }
        Ok(())
    }

    pub(super) fn begin_key(
        &mut self,
        key: &Key<'_>,
        fingerprint: &[u8],
        lease: Duration,
        now: OffsetDateTime,
    ) -> KeyState {
        let token = Token::fresh();
        let begun = KeyRow {
            fingerprint: fingerprint.into(),
            status: KeyStatus::Processing,
            token,
            until: now + span(lease),
            updated_at: now,
        };
        let id = (key.scope.to_owned(), key.key.to_owned());
        match self.keys.get(&id) {
            None => {
                self.keys.insert(id, begun);
                KeyState::Begun(token)
            }
            // The mismatch comes first: the caller must not get the result or the state of another request.
            Some(known) if known.fingerprint != fingerprint => KeyState::Mismatch,
            Some(known) => match &known.status {
                KeyStatus::Success(result) => KeyState::Done(result.clone()),
                KeyStatus::Processing if known.until > now => KeyState::InProgress,
                KeyStatus::Processing | KeyStatus::Failed(_) => {
                    self.keys.insert(id, begun);
                    KeyState::TakenOver(token)
                }
            },
        }
    }

    pub(super) fn complete_key(&mut self, key: &Key<'_>, token: Token, result: &str, now: OffsetDateTime) -> bool {
        self.end_key(key, token, KeyStatus::Success(result.into()), now)
    }

    pub(super) fn fail_key(&mut self, key: &Key<'_>, token: Token, error: &str, now: OffsetDateTime) -> bool {
        self.end_key(key, token, KeyStatus::Failed(limits::error_text(error)), now)
    }

    fn end_key(&mut self, key: &Key<'_>, token: Token, status: KeyStatus, now: OffsetDateTime) -> bool {
        match self.held_key(key, token) {
            Some(row) => {
                row.status = status;
                row.updated_at = now;
                true
            }
            None => false,
        }
    }

    pub(super) fn join_key(
        &mut self,
        key: &Key<'_>,
        token: Token,
        lease: Duration,
        now: OffsetDateTime,
    ) -> Option<Token> {
        let joined = Token::fresh();
        let row = self.held_key(key, token)?;
        (row.token, row.until, row.updated_at) = (joined, now + span(lease), now);
        Some(joined)
    }

    pub(super) fn extend_key(&mut self, key: &Key<'_>, token: Token, lease: Duration, now: OffsetDateTime) -> bool {
        match self.held_key(key, token) {
            Some(row) => {
                (row.until, row.updated_at) = (now + span(lease), now);
                true
            }
            None => false,
        }
    }

    /// The key, if the caller still holds it.
    fn held_key(&mut self, key: &Key<'_>, token: Token) -> Option<&mut KeyRow> {
        let row = self.keys.get_mut(&(key.scope.into(), key.key.into()))?;
        (row.token == token && row.status == KeyStatus::Processing).then_some(row)
    }
}
