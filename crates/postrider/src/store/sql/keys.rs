//! Idempotency keys, in the caller's transaction.

use std::time::Duration;

use super::{Conn, SqlStore};
use crate::error::Result;
use crate::limits;
use crate::store::batch::millis;
use crate::store::{Key, KeyState, Keys, Token};

impl Keys for SqlStore {
    async fn begin_key(&self, conn: &mut Conn, key: &Key<'_>, fingerprint: &[u8], lease: Duration) -> Result<KeyState> {
        super::begin_key(conn, key, fingerprint, millis(lease)).await
    }

    async fn complete_key(&self, conn: &mut Conn, key: &Key<'_>, token: Token, result: &str) -> Result<bool> {
        let sql = text!(
            "UPDATE postrider_idempotency AS k SET status = 'SUCCESS', result = $1, error = NULL, updated_at = ",
            now!(),
            " WHERE k.scope = $2 AND k.key = $3 AND k.token = $4 AND k.status = 'PROCESSING'"
        );
        let query = sqlx::query(sql).bind(result).bind(key.scope).bind(key.key).bind(token.0);
        Ok(query.execute(conn).await?.rows_affected() == 1)
    }

    async fn fail_key(&self, conn: &mut Conn, key: &Key<'_>, token: Token, error: &str) -> Result<bool> {
        let sql = text!(
            "UPDATE postrider_idempotency AS k SET status = 'FAILED', error = $1, updated_at = ",
            now!(),
            " WHERE k.scope = $2 AND k.key = $3 AND k.token = $4 AND k.status = 'PROCESSING'"
        );
        let query = sqlx::query(sql).bind(limits::error_text(error)).bind(key.scope).bind(key.key).bind(token.0);
        Ok(query.execute(conn).await?.rows_affected() == 1)
    }

    async fn join_key(&self, conn: &mut Conn, key: &Key<'_>, token: Token, lease: Duration) -> Result<Option<Token>> {
        let joined = Token::fresh();
        let sql = text!(
            "UPDATE postrider_idempotency AS k SET token = $1, lock_until = ",
            clock_later!("$2"),
            ", updated_at = ",
            now!(),
            " WHERE k.scope = $3 AND k.key = $4 AND k.token = $5 AND k.status = 'PROCESSING'"
        );
        let query = sqlx::query(sql).bind(joined.0).bind(millis(lease)).bind(key.scope).bind(key.key).bind(token.0);
        Ok((query.execute(conn).await?.rows_affected() == 1).then_some(joined))
    }

    async fn extend_key(&self, conn: &mut Conn, key: &Key<'_>, token: Token, lease: Duration) -> Result<bool> {
        let sql = text!(
            "UPDATE postrider_idempotency AS k SET lock_until = ",
            clock_later!("$1"),
            ", updated_at = ",
            now!(),
            " WHERE k.scope = $2 AND k.key = $3 AND k.token = $4 AND k.status = 'PROCESSING'"
        );
        let query = sqlx::query(sql).bind(millis(lease)).bind(key.scope).bind(key.key).bind(token.0);
        Ok(query.execute(conn).await?.rows_affected() == 1)
    }
}
