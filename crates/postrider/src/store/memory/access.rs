//! Tokens, sessions and the audit log.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::span;
use crate::error::Result;
use crate::store::access::{Access, AuditRecord, AuditText, NewAudit, NewSession, NewToken, StoredToken};

#[derive(Clone)]
pub(super) struct TokenRow {
    hash: String,
    token: StoredToken,
}

#[derive(Clone)]
pub(super) struct SessionRow {
    token_id: String,
    seen_at: OffsetDateTime,
    expires_at: OffsetDateTime,
}

#[cfg(feature = "testing")]
impl TokenRow {
    pub(super) fn age(&mut self, by: time::Duration) {
        self.token.created_at -= by;
        for time in [&mut self.token.last_used_at, &mut self.token.revoked_at].into_iter().flatten() {
            *time -= by;
        }
    }
}

#[cfg(feature = "testing")]
impl SessionRow {
    pub(super) fn age(&mut self, by: time::Duration) {
        self.seen_at -= by;
        self.expires_at -= by;
    }
}

#[async_trait]
impl Access for MemoryStore {
    async fn create_token(&self, new: &NewToken<'_>) -> Result<bool> {
        new.check()?;
        let token = |now| StoredToken {
            token_id: new.token_id.into(),
            name: new.name.into(),
            role: new.role,
            created_at: now,
            last_used_at: None,
            revoked_at: None,
        };
        Ok(self
            .write(|state, now| {
                let taken = |row: &TokenRow| row.hash == new.hash || row.token.token_id == new.token_id;
                let free = !state.tokens.iter().any(taken);
                if free {
                    state.tokens.push(TokenRow { hash: new.hash.into(), token: token(now) });
                }
                free
            })
            .await)
    }

    async fn find_token(&self, hash: &str) -> Result<Option<StoredToken>> {
        Ok(self
            .write(|state, now| {
                let row = state.tokens.iter_mut().find(|row| row.hash == hash && row.token.revoked_at.is_none())?;
                let found = row.token.clone();
                row.token.last_used_at = Some(now);
                Some(found)
            })
            .await)
    }

    async fn tokens(&self) -> Result<Vec<StoredToken>> {
        Ok(self.read(|state, _| state.tokens.iter().map(|row| row.token.clone()).collect()))
    }

    async fn revoke_token(&self, token_id: &str) -> Result<bool> {
        Ok(self
            .write(|state, now| {
                let live = |row: &&mut TokenRow| row.token.token_id == token_id && row.token.revoked_at.is_none();
                let row = state.tokens.iter_mut().find(live);
                row.map(|row| row.token.revoked_at = Some(now)).is_some()
            })
            .await)
    }

    async fn create_session(&self, session: &NewSession<'_>) -> Result<()> {
        session.check()?;
        self.write(|state, now| {
            state.sessions.retain(|_, row| row.expires_at > now);
            let (token_id, expires_at) = (session.token_id.into(), now + span(session.lasts));
            state.sessions.insert(session.hash.into(), SessionRow { token_id, seen_at: now, expires_at });
        })
        .await;
        Ok(())
    }

    async fn find_session(&self, hash: &str, idle: Duration) -> Result<Option<StoredToken>> {
        Ok(self
            .write(|state, now| {
                let lasts = |row: &&mut SessionRow| row.expires_at > now && row.seen_at > now - span(idle);
                let session = state.sessions.get_mut(hash).filter(lasts)?;
                let of_session = |row: &&TokenRow| row.token.token_id == session.token_id;
                let token = state.tokens.iter().find(of_session).map(|row| row.token.clone())?;
                session.seen_at = now;
                token.revoked_at.is_none().then_some(token)
            })
            .await)
    }

    async fn end_session(&self, hash: &str) -> Result<bool> {
        Ok(self.write(|state, _| state.sessions.remove(hash).is_some()).await)
    }

    async fn append_audit(&self, record: &NewAudit<'_>) -> Result<()> {
        let AuditText { actor, token_id, action, target, outcome, request_id, detail } = record.into();
        self.write(|state, at| {
            let number = state.audit.last().map_or(1, |last| last.number + 1);
            let record = AuditRecord { number, at, actor, token_id, action, target, outcome, request_id, detail };
            state.audit.push(record);
        })
        .await;
        Ok(())
    }

    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditRecord>> {
        let wanted = |record: &&AuditRecord| before.is_none_or(|before| record.number < before);
        Ok(self.read(|state, _| state.audit.iter().rev().filter(wanted).take(limit as usize).cloned().collect()))
    }
}
