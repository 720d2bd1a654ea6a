//! Operations that need SQLite's own statements: routing, reports, pruning, keys, figures and migrations.

use std::collections::BTreeMap;

use super::roles::records::records;
use super::roles::redrives::mark;
use super::{Conn, SqliteStore, StoreTx, rows};
use crate::error::Result;
use crate::limits;
use crate::store::batch::{self, unix_ms};
use crate::store::decide::lookups;
use crate::store::sql::json;
use crate::store::{Appended, Pruned, Report, Routed};

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

/// Runs a statement whose parameter is a list of hashes and event seqs.
pub(super) async fn write_pairs(conn: &mut Conn, sql: &'static str, pairs: &[(i64, i64)]) -> Result<()> {
    sqlx::query(sql).bind(json(pairs)?).execute(conn).await?;
    Ok(())
}
