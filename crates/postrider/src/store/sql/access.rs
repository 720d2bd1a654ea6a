//! Tokens, sessions and the audit log.

use std::time::Duration;

use async_trait::async_trait;

use super::{SqlStore, Time, time};
use crate::error::{Error, Result};
use crate::store::access::{Access, AuditRecord, AuditText, NewAudit, NewSession, NewToken, StoredToken, USED_WITHIN};
use crate::store::batch::millis;
use crate::store::sql::{is_new, retrying};

/// Token id, name, role, created, last used, revoked, and whether its use must be recorded.
type TokenRow = (String, String, String, Time, Option<Time>, Option<Time>, bool);

fn token(row: TokenRow) -> Result<StoredToken> {
    let (token_id, name, role, created_at, last_used_at, revoked_at, _) = row;
    Ok(StoredToken {
        token_id,
        name,
        role: role.parse().map_err(|_| Error::corrupt("role", &role))?,
        created_at: time(created_at),
        last_used_at: last_used_at.map(time),
        revoked_at: revoked_at.map(time),
    })
}

#[async_trait]
impl Access for SqlStore {
    async fn create_token(&self, token: &NewToken<'_>) -> Result<bool> {
        token.check()?;
        let query = sqlx::query(text!(
            "INSERT INTO postrider_token (token_id, name, role, hash, created_at) VALUES ($1, $2, $3, $4, ",
            now!(),
            ")"
        ));
        let query = query.bind(token.token_id).bind(token.name).bind(token.role.as_str()).bind(token.hash);
        is_new(query.execute(self.writer()).await)
    }

    async fn find_token(&self, hash: &str) -> Result<Option<StoredToken>> {
        let query = sqlx::query_as(text!(
            "SELECT token_id, name, role, created_at, last_used_at, revoked_at, \
             last_used_at IS NULL OR last_used_at <= ",
            earlier!("$1"),
            " FROM postrider_token WHERE hash = $2 AND revoked_at IS NULL"
        ));
        let found: Option<TokenRow> = query.bind(millis(USED_WITHIN)).bind(hash).fetch_optional(self.reader()).await?;
        let Some(row) = found else { return Ok(None) };
        if row.6 {
            let sql = text!("UPDATE postrider_token SET last_used_at = ", now!(), " WHERE token_id = $1");
            retrying(|| async { Ok(sqlx::query(sql).bind(&row.0).execute(self.writer()).await?) }).await?;
        }
        token(row).map(Some)
    }

    async fn tokens(&self) -> Result<Vec<StoredToken>> {
        let found: Vec<TokenRow> = sqlx::query_as(text!(
            "SELECT token_id, name, role, created_at, last_used_at, revoked_at, false \
             FROM postrider_token ORDER BY created_at, token_id"
        ))
        .fetch_all(self.reader())
        .await?;
        found.into_iter().map(token).collect()
    }

    async fn revoke_token(&self, token_id: &str) -> Result<bool> {
        let sql =
            text!("UPDATE postrider_token SET revoked_at = ", now!(), " WHERE token_id = $1 AND revoked_at IS NULL");
        retrying(|| async { Ok(sqlx::query(sql).bind(token_id).execute(self.writer()).await?.rows_affected() == 1) })
            .await
    }

    async fn create_session(&self, session: &NewSession<'_>) -> Result<()> {
        session.check()?;
        let sql = text!("DELETE FROM postrider_session WHERE expires_at <= ", now!());
        retrying(|| async { Ok(sqlx::query(sql).execute(self.writer()).await?) }).await?;
        let query = sqlx::query(text!(
            "INSERT INTO postrider_session (hash, token_id, created_at, seen_at, expires_at) VALUES ($1, $2, ",
            now!(),
            ", ",
            now!(),
            ", ",
            later!("$3"),
            ")"
        ));
        query.bind(session.hash).bind(session.token_id).bind(millis(session.lasts)).execute(self.writer()).await?;
        Ok(())
    }

    async fn find_session(&self, hash: &str, idle: Duration) -> Result<Option<StoredToken>> {
        let query = sqlx::query_as(text!(
            "SELECT t.token_id, t.name, t.role, t.created_at, t.last_used_at, t.revoked_at, s.seen_at <= ",
            earlier!("$1"),
            " FROM postrider_session s JOIN postrider_token t ON t.token_id = s.token_id \
             WHERE s.hash = $2 AND t.revoked_at IS NULL AND s.expires_at > ",
            now!(),
            " AND s.seen_at > ",
            earlier!("$3")
        ));
        let query = query.bind(millis(USED_WITHIN)).bind(hash).bind(millis(idle));
        let found: Option<TokenRow> = query.fetch_optional(self.reader()).await?;
        let Some(row) = found else { return Ok(None) };
        if row.6 {
            let sql = text!("UPDATE postrider_session SET seen_at = ", now!(), " WHERE hash = $1");
            retrying(|| async { Ok(sqlx::query(sql).bind(hash).execute(self.writer()).await?) }).await?;
        }
        token(row).map(Some)
    }

    async fn end_session(&self, hash: &str) -> Result<bool> {
        let sql = text!("DELETE FROM postrider_session WHERE hash = $1");
        retrying(|| async { Ok(sqlx::query(sql).bind(hash).execute(self.writer()).await?.rows_affected() == 1) }).await
    }

    async fn append_audit(&self, record: &NewAudit<'_>) -> Result<()> {
        let text = AuditText::from(record);
        sqlx::query(text!(
            "INSERT INTO postrider_audit (actor, token_id, action, target, outcome, request_id, detail, at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, ",
            now!(),
            ")"
        ))
        .bind(text.actor)
        .bind(text.token_id)
        .bind(text.action)
        .bind(text.target)
        .bind(text.outcome)
        .bind(text.request_id)
        .bind(text.detail)
        .execute(self.writer())
        .await?;
        Ok(())
    }

    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditRecord>> {
        type AuditRow =
            (i64, Time, String, Option<String>, String, Option<String>, String, Option<String>, Option<String>);
        let query = sqlx::query_as(text!(
            "SELECT number, at, actor, token_id, action, target, outcome, request_id, detail \
             FROM postrider_audit WHERE number < $1 ORDER BY number DESC LIMIT $2"
        ));
        let found: Vec<AuditRow> =
            query.bind(before.unwrap_or(i64::MAX)).bind(i64::from(limit)).fetch_all(self.reader()).await?;
        let record = |(number, at, actor, token_id, action, target, outcome, request_id, detail): AuditRow| {
            AuditRecord { number, at: time(at), actor, token_id, action, target, outcome, request_id, detail }
        };
        Ok(found.into_iter().map(record).collect())
    }
}
