//! What PostgreSQL and SQLite do the same way, because a statement of theirs can write and return rows.

use super::Conn;
use super::roles::records::key_state;
use crate::error::Result;
use crate::store::{Key, KeyState, Token};

/// Removes up to `limit` marks and returns their events.
pub(super) async fn take_marks(conn: &mut Conn, limit: i64) -> Result<Vec<i64>> {
    Ok(sqlx::query_scalar(sql!("upkeep/fold_take")).bind(limit).fetch_all(conn).await?)
}

pub(super) async fn begin_key(conn: &mut Conn, key: &Key<'_>, fingerprint: &[u8], lease_ms: i64) -> Result<KeyState> {
    let token = Token::fresh();
    loop {
        for (sql, state) in
            [(sql!("keys/begin_key"), KeyState::Begun(token)), (sql!("keys/take_over_key"), KeyState::TakenOver(token))]
        {
            let query = sqlx::query(sql).bind(key.scope).bind(key.key).bind(fingerprint).bind(token.0).bind(lease_ms);
            if query.fetch_optional(&mut *conn).await?.is_some() {
                return Ok(state);
            }
        }
        let find = sqlx::query(sql!("keys/find_key")).bind(key.scope).bind(key.key);
        // `None` means that the key was pruned in between, which is possible outside a transaction, and is free
        // again.
        if let Some(row) = find.fetch_optional(&mut *conn).await? {
            return key_state(&row, fingerprint);
        }
    }
}
