//! Operations that need PostgreSQL's own statements: routing, reports, pruning, keys, figures and migrations.

use std::collections::HashSet;

use super::roles::records::records;
use super::{Conn, PostgresStore, StoreTx};
use crate::error::Result;
use crate::limits;
use crate::shard;
use crate::store::batch;
use crate::store::decide::lookups;
use crate::store::{Appended, Pruned, Report, Routed};

impl PostgresStore {
    pub(super) async fn begin_migrating(&self) -> Result<StoreTx> {
        let mut tx = self.work.begin().await?;
        // One instance migrates. The others wait here until its transaction ends, and find nothing to do.
        sqlx::query("SELECT pg_advisory_xact_lock(hashtext('postrider migrations'))").execute(&mut *tx).await?;
        Ok(tx)
    }

    pub(super) async fn end_migrating(tx: StoreTx) -> Result<()> {
        Ok(tx.commit().await?)
    }

    pub(super) async fn route_once(&self, limit: u32) -> Result<Routed> {
        let mut tx = self.work.begin().await?;
        let lock = sqlx::query_as(sql!("events/route_lock")).bind(i64::from(limit));
        let taken: Vec<(i64, String, Option<String>)> = lock.fetch_all(&mut *tx).await?;
        if taken.is_empty() {
            return Ok(Routed::default());
        }
        let shards = taken.iter().map(|(seq, event_id, key)| (*seq, shard::shard_of(key.as_deref(), event_id)));
        let (routed, unheard): (i64, i64) =
            sqlx::query_as(sql!("events/route")).bind(batch::routes(shards)?).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(Routed { routed: routed.unsigned_abs(), unheard: unheard.unsigned_abs() })
    }

    pub(super) async fn append_consumption_once(&self, report: &Report) -> Result<Appended> {
        let mut tx = self.work.begin().await?;
        let lock = sqlx::query_scalar(sql!("events/append_consumption_lock"));
        let seq: Option<i64> = lock.bind(&report.event_id).bind(&report.consumer).fetch_optional(&mut *tx).await?;
        let Some(seq) = seq else {
            return Ok(Appended::NotExpected);
        };
        let (attempt, new): (i32, bool) = sqlx::query_as(sql!("events/append_consumption"))
            .bind(seq)
            .bind(&report.consumer)
            .bind(report.success)
            .bind(report.will_retry)
            .bind(report.consumed_at)
            .bind(report.error.as_deref().map(limits::error_text))
            .bind(report.code.as_deref().map(limits::error_code))
            .bind(&report.callback_id)
            .fetch_one(&mut *tx)
            .await?;
        tx.commit().await?;
        let attempt = attempt.unsigned_abs();
        Ok(if new { Appended::Attempt(attempt) } else { Appended::Repeated(attempt) })
    }

    pub(super) async fn oldest_pending_ms(&self) -> Result<Option<i64>> {
        Ok(sqlx::query_scalar(sql!("figures/oldest_pending")).fetch_one(&self.work).await?)
    }

    pub(super) async fn prune_events_once(&self, older_than: i64, after: i64, limit: i64) -> Result<Pruned> {
        let mut tx = self.work.begin().await?;
        let lock = sqlx::query_scalar(sql!("upkeep/prune_events_lock")).bind(older_than).bind(after).bind(limit);
        let taken: Vec<i64> = lock.fetch_all(&mut *tx).await?;
        let removed = remove_events(&mut tx, &taken).await?;
        tx.commit().await?;
        let full = taken.len() as i64 == limit;
        Ok(Pruned { removed, next: taken.last().copied().filter(|_| full) })
    }

    pub(super) async fn prune_these_once(&self, seqs: &[i64]) -> Result<u64> {
        let mut tx = self.work.begin().await?;
        sqlx::query(sql!("redrives/redrive_events_lock")).bind(seqs).execute(&mut *tx).await?;
        let removed = remove_events(&mut tx, seqs).await?;
        tx.commit().await?;
        Ok(removed)
    }
}

/// Removes the finished ones of these locked events, with all their rows.
async fn remove_events(conn: &mut Conn, taken: &[i64]) -> Result<u64> {
    let records = records(conn, taken).await?;
    let query = sqlx::query_scalar(sql!("upkeep/prune_events")).bind(taken);
    let removed: HashSet<i64> = query.fetch_all(&mut *conn).await?.into_iter().collect();
    let gone = records.iter().filter(|record| removed.contains(&record.sequence));
    write_pairs(conn, sql!("upkeep/prune_lookups"), &gone.flat_map(lookups).collect::<Vec<_>>()).await?;
    Ok(removed.len() as u64)
}

/// Runs a statement whose parameters are hashes and event seqs.
pub(super) async fn write_pairs(conn: &mut Conn, sql: &'static str, pairs: &[(i64, i64)]) -> Result<()> {
    let (hashes, seqs): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
    sqlx::query(sql).bind(hashes).bind(seqs).execute(conn).await?;
    Ok(())
}
