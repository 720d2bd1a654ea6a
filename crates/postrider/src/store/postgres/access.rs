//! Tokens, sessions and the audit.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::{PostgresStore, own};
use crate::error::Result;
use crate::store::access::{
    Access, AuditRecord, AuditRow, AuditText, NewAudit, NewSession, NewToken, StoredToken, TokenRow, USED_WITHIN,
};
use crate::store::batch::millis;

#[async_trait]
impl Access for PostgresStore {
    async fn create_token(&self, token: &NewToken<'_>) -> Result<bool> {
        token.check()?;
        let query = sqlx::query(sql!("create_token")).bind(token.token_id).bind(token.name);
        let query = query.bind(token.role.as_str()).bind(token.hash);
        Ok(query.execute(&self.work).await.map_err(own)?.rows_affected() == 1)
    }

    async fn find_token(&self, hash: &str) -> Result<Option<StoredToken>> {
        let query = sqlx::query_as(sql!("find_token")).bind(hash).bind(millis(USED_WITHIN));
        let found: Option<TokenRow<OffsetDateTime>> = query.fetch_optional(&self.work).await.map_err(own)?;
        let Some(row) = found else {
            return Ok(None);
        };
        if row.6 {
            sqlx::query(sql!("use_token")).bind(&row.0).execute(&self.work).await.map_err(own)?;
        }
        StoredToken::of(row, |time| time).map(Some)
    }

    async fn tokens(&self) -> Result<Vec<StoredToken>> {
        let found: Vec<TokenRow<OffsetDateTime>> =
            sqlx::query_as(sql!("tokens")).fetch_all(&self.work).await.map_err(own)?;
        found.into_iter().map(|row| StoredToken::of(row, |time| time)).collect()
    }

    async fn revoke_token(&self, token_id: &str) -> Result<bool> {
        let query = sqlx::query(sql!("revoke_token")).bind(token_id);
        Ok(query.execute(&self.work).await.map_err(own)?.rows_affected() == 1)
    }

    async fn create_session(&self, session: &NewSession<'_>) -> Result<()> {
        session.check()?;
        sqlx::query(sql!("forget_sessions")).execute(&self.work).await.map_err(own)?;
        let query = sqlx::query(sql!("create_session")).bind(session.hash).bind(session.token_id);
        query.bind(millis(session.lasts)).execute(&self.work).await.map_err(own)?;
        Ok(())
    }

    async fn find_session(&self, hash: &str, idle: Duration) -> Result<Option<StoredToken>> {
        let query = sqlx::query_as(sql!("find_session")).bind(hash).bind(millis(idle)).bind(millis(USED_WITHIN));
        let found: Option<TokenRow<OffsetDateTime>> = query.fetch_optional(&self.work).await.map_err(own)?;
        let Some(row) = found else {
            return Ok(None);
        };
        if row.6 {
            sqlx::query(sql!("use_session")).bind(hash).execute(&self.work).await.map_err(own)?;
        }
        StoredToken::of(row, |time| time).map(Some)
    }

    async fn end_session(&self, hash: &str) -> Result<bool> {
        let query = sqlx::query(sql!("end_session")).bind(hash);
        Ok(query.execute(&self.work).await.map_err(own)?.rows_affected() == 1)
    }

    async fn append_audit(&self, record: &NewAudit<'_>) -> Result<()> {
        let text = AuditText::from(record);
        sqlx::query(sql!("append_audit"))
            .bind(text.actor)
            .bind(text.token_id)
            .bind(text.action)
            .bind(text.target)
            .bind(text.outcome)
            .bind(text.request_id)
            .bind(text.detail)
            .execute(&self.work)
            .await
            .map_err(own)?;
        Ok(())
    }

    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditRecord>> {
        let query = sqlx::query_as(sql!("audit")).bind(before.unwrap_or(i64::MAX)).bind(i64::from(limit));
        let found: Vec<AuditRow<OffsetDateTime>> = query.fetch_all(&self.work).await.map_err(own)?;
        Ok(found.into_iter().map(|row| AuditRecord::of(row, |time| time)).collect())
    }
}
