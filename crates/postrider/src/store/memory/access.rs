//! Tokens, sessions and the audit log.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::{SecretRow, State, span};
use crate::error::Result;
use crate::store::access::{
    Access, AuditEnds, AuditLog, AuditQuery, AuditRecord, Link, NewAudit, NewSession, NewToken, Sealed, StoredToken,
};
use crate::store::audit::{AuditText, Change, committed};
use crate::store::{OwnSecrets, SECRET_ROTATION};

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
        for time in
            [&mut self.token.last_used_at, &mut self.token.revoked_at, &mut self.token.expires_at].into_iter().flatten()
        {
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
            expires_at: new.lasts.map(|lasts| now + span(lasts)),
            scope: new.scope.clone(),
        };
        Ok(self
            .write(|state, now| {
                let taken = |row: &TokenRow| row.hash == new.hash || row.token.token_id == new.token_id;
                let free = !state.tokens.iter().any(taken);
                if free {
                    state.tokens.push(TokenRow { hash: new.hash.into(), token: token(now) });
                    state.note(&new.change(), now);
                }
                free
            })
            .await)
    }

    async fn find_token(&self, hash: &str) -> Result<Option<StoredToken>> {
        Ok(self
            .write(|state, now| {
                let row = state.tokens.iter_mut().find(|row| row.hash == hash && row.token.is_live(now))?;
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
                let revoked = row.map(|row| row.token.revoked_at = Some(now)).is_some();
                if revoked {
                    state.note(&Change::revoked(), now);
                }
                revoked
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
                token.is_live(now).then_some(token)
            })
            .await)
    }

    async fn end_session(&self, hash: &str) -> Result<bool> {
        Ok(self
            .write(|state, now| {
                let ended = state.sessions.remove(hash).is_some();
                if ended {
                    state.note(&Change::default(), now);
                }
                ended
            })
            .await)
    }

    async fn webhook_secrets(&self) -> Result<Vec<OwnSecrets>> {
        Ok(self.read(|state, now| {
            let own = |((topic, consumer), row): (&(String, String), &SecretRow)| {
                let previous = row.previous.clone().filter(|_| row.changed_at > now - span(SECRET_ROTATION));
                let secrets = [Some(row.secret.clone()), previous].into_iter().flatten().collect();
                OwnSecrets { topic: topic.clone(), consumer: consumer.clone(), secrets }
            };
            state.secrets.iter().map(own).collect()
        }))
    }
}

#[async_trait]
impl AuditLog for MemoryStore {
    async fn append_audit(&self, record: &NewAudit<'_>) -> Result<()> {
        self.write(|state, at| state.append_audit(record.into(), at)).await;
        Ok(())
    }

    async fn find_audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>> {
        let is = |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        let wanted = |record: &&AuditRecord| {
            query.before.is_none_or(|before| record.number < before)
                && is(&query.actor, Some(&record.actor))
                && is(&query.action, Some(&record.action))
                && is(&query.target, record.target.as_deref())
                && query.from.is_none_or(|from| from <= record.at)
                && query.to.is_none_or(|to| record.at < to)
        };
        Ok(self.read(|state, _| {
            let newest = state.audit.iter().rev().map(|sealed| &sealed.record);
            newest.filter(wanted).take(query.limit as usize).cloned().collect()
        }))
    }

    async fn seal_audit(&self, limit: u32) -> Result<u64> {
        Ok(self
            .write(|state, _| {
                let mut sealed = 0;
                for one in state.audit.iter_mut().filter(|one| one.link.place == 0).take(limit as usize) {
                    one.link = state.audit_ends.head.next(&one.record);
                    state.audit_ends.head = one.link.clone();
                    sealed += 1;
                }
                sealed
            })
            .await)
    }

    async fn audit_ends(&self) -> Result<AuditEnds> {
        Ok(self.read(|state, _| state.audit_ends.clone()))
    }

    async fn audit_chain(&self, after: i64, limit: u32) -> Result<Vec<Sealed>> {
        Ok(self.read(|state, _| {
            let mut sealed: Vec<_> = state.audit.iter().filter(|one| one.link.place > after).cloned().collect();
            sealed.sort_by_key(|one| one.link.place);
            sealed.truncate(limit as usize);
            sealed
        }))
    }

    async fn prune_audit(&self, older_than: Duration, limit: u32) -> Result<u64> {
        Ok(self
            .write(|state, now| {
                let mut old: Vec<_> = state.audit.iter().filter(|one| one.link.place > 0).cloned().collect();
                old.sort_by_key(|one| one.link.place);
                let is_old = |one: &Sealed| one.record.at < now - span(older_than);
                let old: Vec<_> = old.into_iter().take(limit as usize).take_while(is_old).collect();
                if let Some(last) = old.last() {
                    state.audit_ends.anchor = last.link.clone();
                    let place = last.link.place;
                    state.audit.retain(|one| one.link.place == 0 || one.link.place > place);
                }
                old.len() as u64
            })
            .await)
    }
}

impl State {
    fn append_audit(&mut self, text: AuditText, at: OffsetDateTime) {
        self.last_audit += 1;
        self.audit.push(Sealed { link: Link::default(), record: text.record(self.last_audit, at) });
    }

    /// Writes the audit record of a change, if the caller is audited.
    pub(super) fn note(&mut self, change: &Change, now: OffsetDateTime) {
        if let Some(record) = change.record() {
            self.append_audit(record, now);
            committed();
        }
    }
}
