//! The audit: records that commit with a change, and their chain.

use std::time::Duration;

use async_trait::async_trait;

use super::{Conn, SqlStore, StoreTx, Time, stored, time};
use crate::error::Result;
use crate::store::access::{AuditEnds, AuditLog, AuditQuery, AuditRecord, Link, NewAudit, Sealed};
use crate::store::audit::{AuditText, Change, committed};
use crate::store::batch::millis;
use crate::store::sql::retrying;

/// The content of a record, as [`AuditRow`] has it.
macro_rules! columns {
    () => {
        "number, at, actor, token_id, role, action, target, outcome, reason, request_id, detail, before_state, \
         after_state, place, hash"
    };
}

#[derive(sqlx::FromRow)]
struct AuditRow {
    number: i64,
    at: Time,
    actor: String,
    token_id: Option<String>,
    role: Option<String>,
    action: String,
    target: Option<String>,
    outcome: String,
    reason: Option<String>,
    request_id: Option<String>,
    detail: Option<String>,
    before_state: Option<String>,
    after_state: Option<String>,
    place: Option<i64>,
    hash: Option<String>,
}

impl From<AuditRow> for AuditRecord {
    fn from(row: AuditRow) -> Self {
        let text = AuditText {
            actor: row.actor,
            token_id: row.token_id,
            role: row.role,
            action: row.action,
            target: row.target,
            outcome: row.outcome,
            reason: row.reason,
            request_id: row.request_id,
            detail: row.detail,
            before: row.before_state,
            after: row.after_state,
        };
        text.record(row.number, time(row.at))
    }
}

/// Commits a change together with its audit record, if the caller is audited.
pub(super) async fn commit(mut tx: StoreTx, change: &Change) -> Result<()> {
    let record = change.record();
    if let Some(record) = &record {
        append(&mut tx, record).await?;
    }
    tx.commit().await?;
    if record.is_some() {
        committed();
    }
    Ok(())
}

pub(super) async fn append(conn: &mut Conn, text: &AuditText) -> Result<()> {
    let insert = sqlx::query(text!(
        "INSERT INTO postrider_audit (actor, token_id, role, action, target, outcome, reason, request_id, detail, before_state, \
         after_state, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ",
        now!(),
        ")"
    ));
    let insert = insert.bind(&text.actor).bind(&text.token_id).bind(&text.role).bind(&text.action).bind(&text.target);
    let insert = insert.bind(&text.outcome).bind(&text.reason).bind(&text.request_id).bind(&text.detail);
    insert.bind(&text.before).bind(&text.after).execute(conn).await?;
    Ok(())
}

/// The ends of the chain, by a statement that may lock them.
pub(super) async fn ends(conn: &mut Conn, sql: &'static str) -> Result<AuditEnds> {
    let (place, hash, anchor_place, anchor_hash): (i64, String, i64, String) =
        sqlx::query_as(sql).fetch_one(conn).await?;
    Ok(AuditEnds { anchor: Link { place: anchor_place, hash: anchor_hash }, head: Link { place, hash } })
}

pub(super) async fn chain(conn: &mut Conn, after: i64, limit: u32) -> Result<Vec<Sealed>> {
    let records = text!("SELECT ", columns!(), " FROM postrider_audit WHERE place > $1 ORDER BY place LIMIT $2");
    let records: Vec<AuditRow> = sqlx::query_as(records).bind(after).bind(i64::from(limit)).fetch_all(conn).await?;
    let sealed = records.into_iter().map(|mut row| {
        let link = Link { place: row.place.unwrap_or_default(), hash: row.hash.take().unwrap_or_default() };
        Sealed { link, record: row.into() }
    });
    Ok(sealed.collect())
}

const LOCK_ENDS: &str =
    text!("SELECT place, hash, anchor_place, anchor_hash FROM postrider_audit_chain", for_update!());

impl SqlStore {
    /// Runs a statement that changes one row, with its audit record. Returns whether it did.
    pub(super) async fn change_one(&self, sql: &'static str, id: &str, change: &Change) -> Result<bool> {
        let mut tx = self.write().await?;
        if sqlx::query(sql).bind(id).execute(&mut *tx).await?.rows_affected() != 1 {
            tx.rollback().await?;
            return Ok(false);
        }
        commit(tx, change).await.map(|()| true)
    }

    pub(super) async fn seal(&self, limit: i64) -> Result<u64> {
        let mut tx = self.write().await?;
        let mut head = ends(&mut tx, LOCK_ENDS).await?.head;
        let unsealed =
            text!("SELECT ", columns!(), " FROM postrider_audit WHERE place IS NULL ORDER BY number LIMIT $1");
        let unsealed: Vec<AuditRow> = sqlx::query_as(unsealed).bind(limit).fetch_all(&mut *tx).await?;
        let count = unsealed.len() as u64;
        for record in unsealed.into_iter().map(AuditRecord::from) {
            head = head.next(&record);
            let seal = text!("UPDATE postrider_audit SET place = $1, hash = $2 WHERE number = $3");
            let seal = sqlx::query(seal).bind(head.place).bind(&head.hash).bind(record.number);
            seal.execute(&mut *tx).await?;
        }
        let end = sqlx::query(text!("UPDATE postrider_audit_chain SET place = $1, hash = $2"));
        end.bind(head.place).bind(&head.hash).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(count)
    }

    pub(super) async fn prune_chain(&self, older_than: i64, limit: i64) -> Result<u64> {
        let mut tx = self.write().await?;
        let anchor = ends(&mut tx, LOCK_ENDS).await?.anchor;
        let old = text!(
            "SELECT place, hash FROM postrider_audit WHERE place > $1 AND place <= $2 AND at < ",
            earlier!("$3"),
            " ORDER BY place"
        );
        let old = sqlx::query_as(old).bind(anchor.place).bind(anchor.place + limit).bind(older_than);
        let old: Vec<(i64, String)> = old.fetch_all(&mut *tx).await?;
        // Places follow the order of sealing: one that is not old yet ends what can be removed.
        let gapless = old.into_iter().zip(anchor.place + 1..).take_while(|((place, _), next)| place == next);
        let Some(((place, hash), _)) = gapless.last() else {
            tx.rollback().await?;
            return Ok(0);
        };
        let remove = text!("DELETE FROM postrider_audit WHERE place <= $1");
        let removed = sqlx::query(remove).bind(place).execute(&mut *tx).await?.rows_affected();
        let end = sqlx::query(text!("UPDATE postrider_audit_chain SET anchor_place = $1, anchor_hash = $2"));
        end.bind(place).bind(hash).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(removed)
    }
}

#[async_trait]
impl AuditLog for SqlStore {
    async fn append_audit(&self, record: &NewAudit<'_>) -> Result<()> {
        let text = AuditText::from(record);
        retrying(|| async {
            let mut tx = self.write().await?;
            append(&mut tx, &text).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    async fn find_audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>> {
        let sql = text!(
            "SELECT ",
            columns!(),
            " FROM postrider_audit WHERE number < $1 AND actor = coalesce($2, actor) AND action = coalesce($3, action) \
             AND coalesce(target, '') = coalesce($4, target, '') AND at >= coalesce($5, at) AND ($6 OR at < $7) \
             ORDER BY number DESC LIMIT $8"
        );
        let found = sqlx::query_as(sql)
            .bind(query.before.unwrap_or(i64::MAX))
            .bind(&query.actor)
            .bind(&query.action)
            .bind(&query.target)
            .bind(query.from.map(stored))
            .bind(query.to.is_none())
            .bind(query.to.map(stored))
            .bind(i64::from(query.limit));
        let found: Vec<AuditRow> = found.fetch_all(self.reader()).await?;
        Ok(found.into_iter().map(Into::into).collect())
    }

    async fn seal_audit(&self, limit: u32) -> Result<u64> {
        // Usually there is nothing to seal, and this read takes no lock.
        let unsealed = text!("SELECT 1 FROM postrider_audit WHERE place IS NULL LIMIT 1");
        if sqlx::query(unsealed).fetch_optional(self.reader()).await?.is_none() {
            return Ok(0);
        }
        retrying(|| self.seal(i64::from(limit))).await
    }

    async fn audit_ends(&self) -> Result<AuditEnds> {
        ends(
            &mut *self.snapshot().await?,
            text!("SELECT place, hash, anchor_place, anchor_hash FROM postrider_audit_chain"),
        )
        .await
    }

    async fn audit_chain(&self, after: i64, limit: u32) -> Result<Vec<Sealed>> {
        chain(&mut *self.snapshot().await?, after, limit).await
    }

    async fn prune_audit(&self, older_than: Duration, limit: u32) -> Result<u64> {
        retrying(|| self.prune_chain(millis(older_than), i64::from(limit))).await
    }
}
