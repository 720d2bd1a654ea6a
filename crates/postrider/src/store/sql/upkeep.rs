//! The roll-up and the pruning.

use async_trait::async_trait;
use serde::Serialize;

use super::lost;
use super::records::{records, whole_records};
use super::redrives::mark;
use super::{Conn, SqlStore, write_pairs};
use crate::entry::LEASE_RAN_OUT;
use crate::error::Result;
use crate::limits;
use crate::store::batch::{millis, option_ms, unix_ms};
use crate::store::decide::fold::{LOOK_BACK, STRETCH};
use crate::store::decide::{Fold, FoldedStatus};
use crate::store::sql::{is_new, json, retrying};
use crate::store::{Finished, Folded, PriorAttempts, Prunable, Prune, Pruned, Token, Upkeep};
use time::OffsetDateTime;

#[async_trait]
impl Upkeep for SqlStore {
    async fn fold(&self, limit: u32) -> Result<Folded> {
        let idle: bool = sqlx::query_scalar(text!(
            "SELECT NOT EXISTS (SELECT 1 FROM postrider_mark) \
             AND NOT EXISTS (SELECT 1 FROM postrider_status WHERE expires_at IS NOT NULL AND expires_at <= ",
            now!(),
            ") AND NOT EXISTS (SELECT 1 FROM postrider_event WHERE seq > (SELECT folded_to FROM postrider_rollup WHERE id = 1))"
        ))
        .fetch_one(self.reader())
        .await?;
        if idle {
            return Ok(Folded::default());
        }
        retrying(|| self.fold_once(i64::from(limit.clamp(1, limits::PASS_ROWS)))).await
    }

    async fn mark_missed(&self, upto: Option<i64>) -> Result<Option<i64>> {
        let upto = if let Some(upto) = upto {
            upto
        } else {
            let query = sqlx::query_scalar(text!("SELECT folded_to FROM postrider_rollup WHERE id = 1"));
            let folded_to: i64 = query.fetch_one(self.reader()).await?;
            folded_to - LOOK_BACK
        };
        let first = sqlx::query_as(text!(
            "SELECT min(seq), count(*) FROM \
             (SELECT seq FROM postrider_event WHERE seq <= $1 ORDER BY seq DESC LIMIT $2) s"
        ));
        let (first, walked): (Option<i64>, i64) = first.bind(upto).bind(STRETCH).fetch_one(self.reader()).await?;
        let Some(first) = first else { return Ok(None) };
        let missed = sqlx::query_scalar(sql!("upkeep/fold_new")).bind(first - 1).bind(upto);
        let missed: Vec<i64> = missed.bind(i64::from(limits::PASS_ROWS)).fetch_all(self.reader()).await?;
        if !missed.is_empty() {
            // A mark too many is harmless: the event is folded again.
            self.mark_all(&missed).await?;
        }
        Ok((walked == STRETCH).then_some(first - 1))
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        let limit = i64::from(prune.limit.clamp(1, limits::PASS_ROWS));
        let older_than = millis(prune.older_than);
        let sql = match prune.what {
            Prunable::Events => return retrying(|| self.prune_events_once(older_than, prune.after, limit)).await,
            Prunable::Inbox => sql!("upkeep/prune_inbox"),
            Prunable::Keys => sql!("upkeep/prune_keys"),
            Prunable::Operations => {
                // Its events first, in the same small batches.
                let removed = self.prune_rows(sql!("upkeep/prune_items"), older_than, limit).await?;
                if removed == limit.unsigned_abs() {
                    return Ok(Pruned { removed: 0, next: Some(0) });
                }
                sql!("upkeep/prune_operations")
            }
            Prunable::Figures => sql!("upkeep/prune_figures"),
        };
        let removed = self.prune_rows(sql, older_than, limit).await?;
        Ok(Pruned { removed, next: (removed == limit.unsigned_abs()).then_some(0) })
    }

    async fn finished(&self, prune: &Prune) -> Result<Finished> {
        let limit = i64::from(prune.limit.clamp(1, limits::PASS_ROWS));
        let mut session = self.snapshot().await?;
        let query =
            sqlx::query_as(sql!("upkeep/finished")).bind(millis(prune.older_than)).bind(prune.after).bind(limit);
        let stretch: Vec<(i64, bool)> = query.fetch_all(&mut *session).await?;
        let seqs: Vec<i64> = stretch.iter().filter(|(_, finished)| *finished).map(|(seq, _)| *seq).collect();
        let next = stretch.last().map(|(seq, _)| *seq).filter(|_| stretch.len() as i64 == limit);
        Ok(Finished { events: whole_records(&mut session, &seqs).await?, next })
    }

    async fn prune_events(&self, sequences: &[i64]) -> Result<u64> {
        retrying(|| self.prune_these_once(sequences)).await
    }

    async fn append_lost(&self, token: Token, prior: &[PriorAttempts]) -> Result<()> {
        let missing = lost::missing(self, token, prior).await?;
        let insert = text!(
            "INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, will_retry, consumed_at, error, code) \
             VALUES ($1, $2, $3, false, true, ",
            now!(),
            ", $4, $5)"
        );
        for (seq, consumer, attempt) in &missing {
            let (error, code) = LEASE_RAN_OUT;
            retrying(|| async {
                let query = sqlx::query(insert).bind(seq).bind(consumer).bind(attempt).bind(error).bind(code);
                is_new(query.execute(self.writer()?).await)
            })
            .await?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        let mut seqs: Vec<i64> = missing.iter().map(|(seq, _, _)| *seq).collect();
        seqs.dedup();
        self.mark_all(&seqs).await
    }
}

impl SqlStore {
    async fn mark_all(&self, seqs: &[i64]) -> Result<()> {
        retrying(|| async {
            let mut tx = self.write().await?;
            mark(&mut tx, seqs).await?;
            tx.commit().await?;
            Ok(())
        })
        .await
    }

    async fn prune_rows(&self, sql: &'static str, older_than: i64, limit: i64) -> Result<u64> {
        retrying(|| async {
            Ok(sqlx::query(sql).bind(older_than).bind(limit).execute(self.writer()?).await?.rows_affected())
        })
        .await
    }

    async fn fold_once(&self, limit: i64) -> Result<Folded> {
        let mut tx = self.write().await?;
        let lock = text!("SELECT folded_to FROM postrider_rollup WHERE id = 1", for_update!());
        let folded_to: i64 = sqlx::query_scalar(lock).fetch_one(&mut *tx).await?;
        // Marks are removed before anything is read: a later commit sets a new mark.
        let mut dirty = super::take_marks(&mut tx, limit).await?;
        let mut more = dirty.len() as i64 == limit;
        let expiring: Vec<i64> =
            sqlx::query_scalar(sql!("upkeep/fold_expiring")).bind(limit).fetch_all(&mut *tx).await?;
        more |= expiring.len() as i64 == limit;
        dirty.extend(expiring);
        let stretch = sqlx::query_as(sql!("upkeep/fold_stretch")).bind(folded_to).bind(STRETCH);
        let (upto, walked): (Option<i64>, i64) = stretch.fetch_one(&mut *tx).await?;
        if let Some(upto) = upto {
            let query = sqlx::query_scalar(sql!("upkeep/fold_new")).bind(folded_to - LOOK_BACK).bind(upto).bind(limit);
            let new: Vec<i64> = query.fetch_all(&mut *tx).await?;
            let full = new.len() as i64 == limit;
            let upto = new.last().copied().filter(|_| full).unwrap_or(upto);
            more |= full || walked == STRETCH;
            dirty.extend(new);
            if upto > folded_to {
                let done = text!("UPDATE postrider_rollup SET folded_to = $1 WHERE id = 1");
                sqlx::query(done).bind(upto).execute(&mut *tx).await?;
            }
        }
        // An event may have been found in several ways.
        dirty.sort_unstable();
        dirty.dedup();
        if !dirty.is_empty() {
            let records = records(&mut tx, &dirty).await?;
            write(&mut tx, &Fold::of(&records)).await?;
        }
        tx.commit().await?;
        Ok(Folded { events: dirty.len() as u64, more })
    }
}

async fn write(conn: &mut Conn, fold: &Fold<'_>) -> Result<()> {
    let rows: Vec<_> = fold.statuses.iter().map(StatusRow::of).collect();
    sqlx::query(sql!("upkeep/fold_write")).bind(json(&rows)?).execute(&mut *conn).await?;
    write_pairs(conn, sql!("upkeep/fold_lookups"), &fold.lookups).await?;
    if !fold.figures.is_empty() {
        sqlx::query(sql!("upkeep/fold_figures")).bind(json(&fold.figures)?).execute(conn).await?;
    }
    Ok(())
}

/// A row of the parameter of `fold_write.sql`.
#[derive(Serialize)]
struct StatusRow<'a> {
    seq: i64,
    status: &'static str,
    expected: u32,
    consumed: u32,
    failed: u32,
    #[serde(rename = "sent_ms", serialize_with = "option_ms")]
    sent_at: Option<OffsetDateTime>,
    #[serde(rename = "last_sent_ms", serialize_with = "option_ms")]
    last_sent_at: Option<OffsetDateTime>,
    topic: &'a str,
    service: Option<&'a str>,
    tenant_id: Option<&'a str>,
    created_ms: i64,
    #[serde(rename = "expires_ms", serialize_with = "option_ms")]
    expires_at: Option<OffsetDateTime>,
    updated_ms: i64,
    last_error: Option<&'a str>,
}

impl<'a> StatusRow<'a> {
    fn of(folded: &'a FoldedStatus<'_>) -> Self {
        let FoldedStatus { record, standing, .. } = folded;
        Self {
            seq: record.sequence,
            status: standing.status.as_str(),
            expected: standing.expected,
            consumed: standing.consumed,
            failed: standing.failed,
            sent_at: standing.sent_at,
            last_sent_at: standing.last_sent_at,
            topic: &record.envelope.topic,
            service: folded.service.as_deref(),
            tenant_id: record.envelope.tenant_id.as_deref(),
            created_ms: unix_ms(record.created_at),
            expires_at: folded.expires_at,
            updated_ms: unix_ms(standing.updated_at),
            last_error: standing.last_error.as_deref(),
        }
    }
}
