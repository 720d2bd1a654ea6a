//! Helpers for tests: stored times are moved back, and what is stored is read.

use std::time::Duration;

use sqlx::AssertSqlSafe;

use super::SqlStore;
use super::records::whole_records;
use crate::Envelope;
use crate::error::Result;
use crate::store::batch::millis;
use crate::store::sql::retrying;
use crate::testing::{Age, Peek};

/// All times that are stored, by table.
const TIMES: [(&str, &[&str]); 16] = [
    ("postrider_event", &["created_at", "expire_at", "deliver_at"]),
    ("postrider_delivery", &["due_at", "lock_time", "lock_until", "skipped_at"]),
    ("postrider_consumption", &["created_at", "consumed_at"]),
    ("postrider_inbox", &["received_at"]),
    ("postrider_repeat", &["repeated_at"]),
    ("postrider_promise", &["checked_at"]),
    ("postrider_idempotency", &["lock_until", "created_at", "updated_at"]),
    (
        "postrider_status",
        &[
            "redriven_at",
            "expired_at",
            "sent_at",
            "last_sent_at",
            "created_at",
            "expires_at",
            "status_at",
            "updated_at",
        ],
    ),
    ("postrider_lease", &["lock_time", "lock_until"]),
    ("postrider_instance", &["started_at", "seen_at"]),
    ("postrider_alert", &["since", "over_at"]),
    ("postrider_job", &["since", "next_slot", "last_slot", "fired_at", "lock_until", "finished_at"]),
    ("postrider_operation", &["lock_until", "created_at", "updated_at", "finished_at", "gate_since", "look_at"]),
    ("postrider_token", &["created_at", "last_used_at", "revoked_at", "expires_at"]),
    ("postrider_webhook_secret", &["changed_at"]),
    ("postrider_session", &["created_at", "seen_at", "expires_at"]),
];

impl Age for SqlStore {
    async fn age(&self, by: Duration) -> Result<()> {
        retrying(|| self.age_once(millis(by))).await
    }
}

impl SqlStore {
    async fn age_once(&self, by: i64) -> Result<()> {
        let mut tx = self.write().await?;
        for (table, columns) in TIMES {
            let moved = |column| format!(concat!("{0} = {0} - ", interval!("{1}")), column, by);
            let columns: Vec<_> = columns.iter().map(moved).collect();
            let sql = format!("UPDATE {table} SET {}", columns.join(", "));
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *tx).await?;
        }
        // Negated first: moved in one step, one minute would collide with another that has not moved yet.
        let sql = text!("UPDATE postrider_figure SET minute = $1 - minute");
        sqlx::query(sql).bind(by / 60_000).execute(&mut *tx).await?;
        sqlx::query("UPDATE postrider_figure SET minute = -minute").execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }
}

impl Peek for SqlStore {
    async fn enqueued(&self, topic: &str) -> Result<Vec<Envelope>> {
        let mut session = self.snapshot().await?;
        let query = sqlx::query_scalar(text!("SELECT seq FROM postrider_event WHERE topic = $1"));
        let seqs: Vec<i64> = query.bind(topic).fetch_all(&mut *session).await?;
        let records = whole_records(&mut session, &seqs).await?;
        Ok(records.into_iter().map(|record| record.envelope).collect())
    }
}
