//! Operations that need SQLite's own statements: routing, reports, pruning, keys, figures and migrations.

use std::collections::BTreeMap;
use std::time::Duration;

use super::roles::records::{key_state, records};
use super::roles::redrives::mark;
use super::{Conn, SqliteStore, StoreTx, rows};
use crate::alert::SnapshotHolder;
use crate::error::Result;
use crate::limits;
use crate::store::batch::{self, unix_ms};
use crate::store::decide::lookups;
use crate::store::sql::json;
use crate::store::{Appended, Key, KeyState, Pruned, Report, Routed, Token};

impl SqliteStore {
    /// One instance migrates under the write lock. The others wait, and find nothing to do.
    pub(super) async fn begin_migrating(&self) -> Result<StoreTx> {
        self.write().await
    }

    pub(super) async fn end_migrating(tx: StoreTx) -> Result<()> {
        Ok(tx.commit().await?)
    }

    pub(super) async fn route_once(&self, limit: u32) -> Result<Routed> {
        // A reader looks first: the router rarely has work, and without work it must not wait for the writer.
        let idle = sqlx::query(sql!("events/route_lock")).bind(1).fetch_optional(&self.reader);
        if idle.await?.is_none() {
            return Ok(Routed::default());
        }
        let mut tx = self.write().await?;
        let taken = sqlx::query(sql!("events/route_lock")).bind(limit).fetch_all(&mut *tx).await?;
        let mut shards: BTreeMap<i64, u8> = taken.iter().map(rows::shard).collect::<Result<_>>()?;
        if let Some(beyond) = shards.keys().nth(limit as usize).copied() {
            shards.split_off(&beyond);
        }
        let routes = batch::routes(shards)?;
        write_routes(&mut tx, &routes).await?;
        let marked: Vec<bool> = sqlx::query_scalar(sql!("events/route")).bind(&routes).fetch_all(&mut *tx).await?;
        sqlx::query(sql!("events/note_routed")).bind(routes).execute(&mut *tx).await?;
        tx.commit().await?;
        let routed = marked.iter().filter(|subscribed| **subscribed).count() as u64;
        Ok(Routed { routed, unheard: marked.len() as u64 - routed })
    }

    pub(super) async fn append_consumption_once(&self, report: &Report) -> Result<Appended> {
        let mut tx = self.write().await?;
        let lock = sqlx::query_as(sql!("events/append_consumption_lock"));
        let lock = lock.bind(&report.event_id).bind(&report.consumer).bind(&report.callback_id);
        let expected: Option<(i64, Option<u32>)> = lock.fetch_optional(&mut *tx).await?;
        let seq = match expected {
            None => return Ok(Appended::NotExpected),
            Some((_, Some(attempt))) => return Ok(Appended::Repeated(attempt)),
            Some((seq, None)) => seq,
        };
        let attempt: u32 = sqlx::query_scalar(sql!("events/append_consumption"))
            .bind(seq)
            .bind(&report.consumer)
            .bind(report.success)
            .bind(report.will_retry)
            .bind(report.consumed_at.map(unix_ms))
            .bind(report.error.as_deref().map(limits::error_text))
            .bind(report.code.as_deref().map(limits::error_code))
            .bind(&report.callback_id)
            .fetch_one(&mut *tx)
            .await?;
        mark(&mut tx, &[seq]).await?;
        tx.commit().await?;
        Ok(Appended::Attempt(attempt))
    }

    pub(super) async fn oldest_pending_ms(&self) -> Result<Option<i64>> {
        Ok(sqlx::query_scalar(sql!("figures/oldest_pending")).fetch_one(&self.reader).await?)
    }

    /// A long read delays the checkpoint of the write-ahead log, but no claim.
    pub(super) async fn find_snapshot_holders(&self, _older_than: Duration) -> Result<Vec<SnapshotHolder>> {
        Ok(Vec::new())
    }

    pub(super) async fn prune_events_once(&self, older_than: i64, after: i64, limit: i64) -> Result<Pruned> {
        let mut tx = self.write().await?;
        let query = sqlx::query_as(sql!("upkeep/prune_stretch")).bind(after).bind(limit).bind(older_than);
        let (rows, last, old): (i64, Option<i64>, Option<bool>) = query.fetch_one(&mut *tx).await?;
        let query = sqlx::query_scalar(sql!("upkeep/prune_candidates")).bind(after).bind(last).bind(older_than);
        let finished: Vec<i64> = query.fetch_all(&mut *tx).await?;
        remove_events(&mut tx, &finished).await?;
        sqlx::query(sql!("upkeep/prune_attempts")).bind(after).bind(last).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Pruned { removed: finished.len() as u64, next: last.filter(|_| rows == limit && old == Some(true)) })
    }

    pub(super) async fn prune_these_once(&self, seqs: &[i64]) -> Result<u64> {
        let mut tx = self.write().await?;
        let query = sqlx::query_scalar(sql!("upkeep/prune_still_finished")).bind(json(seqs)?);
        let finished: Vec<i64> = query.fetch_all(&mut *tx).await?;
        remove_events(&mut tx, &finished).await?;
        sqlx::query(sql!("upkeep/prune_attempts_of")).bind(json(&finished)?).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(finished.len() as u64)
    }
}

/// Removes finished events with their statuses and lookups.
async fn remove_events(conn: &mut Conn, finished: &[i64]) -> Result<()> {
    let gone: Vec<_> = records(conn, finished).await?.iter().flat_map(lookups).collect();
    let seqs = json(finished)?;
    for sql in [sql!("upkeep/prune_events"), sql!("upkeep/prune_statuses")] {
        sqlx::query(sql).bind(&seqs).execute(&mut *conn).await?;
    }
    write_pairs(conn, sql!("upkeep/prune_lookups"), &gone).await
}

/// Writes deliveries and expected consumers of events that this transaction has stored or locked.
pub(super) async fn write_routes(conn: &mut Conn, routes: &str) -> Result<()> {
    for sql in [sql!("events/route_deliveries"), sql!("events/route_expected")] {
        sqlx::query(sql).bind(routes).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Appends a success for each (event, consumer), and marks the events.
pub(super) async fn append_successes(conn: &mut Conn, successes: &[(i64, String)]) -> Result<()> {
    sqlx::query(sql!("events/append_successes")).bind(json(successes)?).execute(&mut *conn).await?;
    let seqs: Vec<i64> = successes.iter().map(|(seq, _)| *seq).collect();
    mark(conn, &seqs).await
}

/// Removes up to `limit` marks and returns their events.
pub(super) async fn take_marks(conn: &mut Conn, limit: i64) -> Result<Vec<i64>> {
    Ok(sqlx::query_scalar(sql!("upkeep/fold_take")).bind(limit).fetch_all(conn).await?)
}

/// Runs a statement whose parameter is a list of hashes and event seqs.
pub(super) async fn write_pairs(conn: &mut Conn, sql: &'static str, pairs: &[(i64, i64)]) -> Result<()> {
    sqlx::query(sql).bind(json(pairs)?).execute(conn).await?;
    Ok(())
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

#[cfg(feature = "testing")]
impl crate::testing::Age for SqliteStore {
    async fn age(&self, by: Duration) -> Result<()> {
        let mut tx = self.write().await?;
        for sql in [
            sql!("testing/age_events"),
            sql!("testing/age_deliveries"),
            sql!("testing/age_consumptions"),
            sql!("testing/age_inbox"),
            sql!("testing/age_keys"),
            sql!("testing/age_leases"),
            sql!("testing/age_instances"),
            sql!("testing/age_alerts"),
            sql!("testing/age_jobs"),
            sql!("testing/age_statuses"),
            sql!("testing/age_operations"),
            sql!("testing/age_figures"),
            sql!("testing/age_tokens"),
            sql!("testing/age_sessions"),
        ] {
            sqlx::query(sql).bind(batch::millis(by)).execute(&mut *tx).await?;
        }
        sqlx::query("UPDATE postrider_figure SET minute = -minute").execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }
}

#[cfg(feature = "testing")]
impl crate::testing::Peek for SqliteStore {
    async fn enqueued(&self, topic: &str) -> Result<Vec<crate::Envelope>> {
        let stored = sqlx::query(sql!("testing/enqueued")).bind(topic).fetch_all(&self.reader).await?;
        stored.iter().map(|row| rows::envelope(row, 0)).collect()
    }
}
