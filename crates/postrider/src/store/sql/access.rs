//! Tokens and sessions.

use std::time::Duration;

use async_trait::async_trait;

use super::audit::commit;
use super::{SqlStore, Time, time};
use crate::error::{Error, Result};
use crate::scope::Scope;
use crate::store::access::{Access, NewSession, NewToken, StoredToken, USED_WITHIN};
use crate::store::audit::Change;
use crate::store::batch::millis;
use crate::store::sql::{is_duplicate, json, retrying};
use crate::store::{OwnSecrets, SECRET_ROTATION};

/// Token id, name, role, created, last used, revoked, expires, scope, and whether its use must be recorded.
type TokenRow = (String, String, String, Time, Option<Time>, Option<Time>, Option<Time>, Option<String>, bool);

fn token(row: TokenRow) -> Result<StoredToken> {
    let (token_id, name, role, created_at, last_used_at, revoked_at, expires_at, scope, _) = row;
    // A scope that cannot be read must not become everything.
    let scope =
        scope.map(|scope| serde_json::from_str::<Scope>(&scope).map_err(|e| Error::Store(e.into()))).transpose()?;
    Ok(StoredToken {
        token_id,
        name,
        role: role.parse().map_err(|_| Error::corrupt("role", &role))?,
        created_at: time(created_at),
        last_used_at: last_used_at.map(time),
        revoked_at: revoked_at.map(time),
        expires_at: expires_at.map(time),
        scope: scope.unwrap_or_default(),
    })
}

#[async_trait]
impl Access for SqlStore {
    async fn create_token(&self, token: &NewToken<'_>) -> Result<bool> {
        token.check()?;
        let scope = (!token.scope.is_everything()).then(|| json(&token.scope)).transpose()?;
        let insert = text!(
            "INSERT INTO postrider_token (token_id, name, role, hash, scope, expires_at, created_at) \
             VALUES ($1, $2, $3, $4, $5, ",
            later!("$6"),
            ", ",
            now!(),
            ")"
        );
        let change = token.change();
        retrying(|| async {
            let mut tx = self.write().await?;
            let query = sqlx::query(insert).bind(token.token_id).bind(token.name).bind(token.role.as_str());
            let query = query.bind(token.hash).bind(&scope).bind(token.lasts.map(millis));
            match query.execute(&mut *tx).await {
                Ok(_) => commit(tx, &change).await.map(|()| true),
                Err(error) if is_duplicate(&error) => {
                    tx.rollback().await?;
                    Ok(false)
                }
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    async fn find_token(&self, hash: &str) -> Result<Option<StoredToken>> {
        let query = sqlx::query_as(text!(
            "SELECT token_id, name, role, created_at, last_used_at, revoked_at, expires_at, scope, \
             last_used_at IS NULL OR last_used_at <= ",
            earlier!("$1"),
            " FROM postrider_token WHERE hash = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ",
            now!(),
            ")"
        ));
        let found: Option<TokenRow> = query.bind(millis(USED_WITHIN)).bind(hash).fetch_optional(self.reader()).await?;
        let Some(row) = found else { return Ok(None) };
        if row.8 {
            let sql = text!("UPDATE postrider_token SET last_used_at = ", now!(), " WHERE token_id = $1");
            retrying(|| async { Ok(sqlx::query(sql).bind(&row.0).execute(self.writer()?).await?) }).await?;
        }
        token(row).map(Some)
    }

    async fn tokens(&self) -> Result<Vec<StoredToken>> {
        let found: Vec<TokenRow> = sqlx::query_as(text!(
            "SELECT token_id, name, role, created_at, last_used_at, revoked_at, expires_at, scope, false \
             FROM postrider_token ORDER BY created_at, token_id"
        ))
        .fetch_all(self.reader())
        .await?;
        found.into_iter().map(token).collect()
    }

    async fn revoke_token(&self, token_id: &str) -> Result<bool> {
        let sql =
            text!("UPDATE postrider_token SET revoked_at = ", now!(), " WHERE token_id = $1 AND revoked_at IS NULL");
        let change = Change::revoked();
        retrying(|| self.change_one(sql, token_id, &change)).await
    }

    async fn create_session(&self, session: &NewSession<'_>) -> Result<()> {
        session.check()?;
        let sql = text!("DELETE FROM postrider_session WHERE expires_at <= ", now!());
        retrying(|| async { Ok(sqlx::query(sql).execute(self.writer()?).await?) }).await?;
        let query = sqlx::query(text!(
            "INSERT INTO postrider_session (hash, token_id, created_at, seen_at, expires_at) VALUES ($1, $2, ",
            now!(),
            ", ",
            now!(),
            ", ",
            later!("$3"),
            ")"
        ));
        query.bind(session.hash).bind(session.token_id).bind(millis(session.lasts)).execute(self.writer()?).await?;
        Ok(())
    }

    async fn find_session(&self, hash: &str, idle: Duration) -> Result<Option<StoredToken>> {
        let query = sqlx::query_as(text!(
            "SELECT t.token_id, t.name, t.role, t.created_at, t.last_used_at, t.revoked_at, t.expires_at, t.scope, s.seen_at <= ",
            earlier!("$1"),
            " FROM postrider_session s JOIN postrider_token t ON t.token_id = s.token_id \
             WHERE s.hash = $2 AND t.revoked_at IS NULL AND s.expires_at > ",
            now!(),
            " AND s.seen_at > ",
            earlier!("$3"),
            " AND (t.expires_at IS NULL OR t.expires_at > ",
            now!(),
            ")"
        ));
        let query = query.bind(millis(USED_WITHIN)).bind(hash).bind(millis(idle));
        let found: Option<TokenRow> = query.fetch_optional(self.reader()).await?;
        let Some(row) = found else { return Ok(None) };
        if row.8 {
            let sql = text!("UPDATE postrider_session SET seen_at = ", now!(), " WHERE hash = $1");
            retrying(|| async { Ok(sqlx::query(sql).bind(hash).execute(self.writer()?).await?) }).await?;
        }
        token(row).map(Some)
    }

    async fn end_session(&self, hash: &str) -> Result<bool> {
        let sql = text!("DELETE FROM postrider_session WHERE hash = $1");
        let change = Change::default();
        retrying(|| self.change_one(sql, hash, &change)).await
    }

    async fn webhook_secrets(&self) -> Result<Vec<OwnSecrets>> {
        let query = sqlx::query_as(text!(
            "SELECT topic, consumer, secret, CASE WHEN changed_at > ",
            earlier!("$1"),
            " THEN previous END FROM postrider_webhook_secret ORDER BY topic, consumer"
        ));
        let rows: Vec<(String, String, String, Option<String>)> =
            query.bind(millis(SECRET_ROTATION)).fetch_all(self.reader()).await?;
        // A text that is no secret was written by hand. The webhook has then none that signs, and its calls fail.
        let own = |(topic, consumer, secret, previous): (_, _, String, Option<String>)| OwnSecrets {
            topic,
            consumer,
            secrets: [Some(secret), previous].into_iter().flatten().filter_map(|text| text.parse().ok()).collect(),
        };
        Ok(rows.into_iter().map(own).collect())
    }
}
