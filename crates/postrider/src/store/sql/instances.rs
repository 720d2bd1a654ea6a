//! Instances and alerts.

use std::time::Duration;

use async_trait::async_trait;

use super::{SqlStore, Time, time};
use crate::alert::AlertState;
use crate::error::{Error, Result};
use crate::store::batch::millis;
use crate::store::instance::KEPT;
use crate::store::sql::{is_new, json, retrying};
use crate::store::{Alerts, Beat, Instance, Instances, NewAlert, StoredAlert};

#[async_trait]
impl Instances for SqlStore {
    async fn beat(&self, beat: &Beat<'_>) -> Result<()> {
        let state = json(beat.running)?;
        let again = text!(
            "UPDATE postrider_instance SET role = $1, version = $2, state = $3, seen_at = ",
            now!(),
            " WHERE instance_id = $4"
        );
        let known = retrying(|| async {
            let query = sqlx::query(again).bind(beat.role).bind(beat.version).bind(&state).bind(beat.instance_id);
            Ok(query.execute(self.writer()?).await?.rows_affected() == 1)
        })
        .await?;
        if known {
            return Ok(());
        }
        let first = text!(
            "INSERT INTO postrider_instance (instance_id, role, version, state, started_at, seen_at) VALUES ($1, $2, $3, $4, ",
            now!(),
            ", ",
            now!(),
            ")"
        );
        retrying(|| async {
            let query = sqlx::query(first).bind(beat.instance_id).bind(beat.role).bind(beat.version).bind(&state);
            is_new(query.execute(self.writer()?).await)
        })
        .await?;
        let old = text!("DELETE FROM postrider_instance WHERE seen_at < ", earlier!("$1"));
        retrying(|| async { Ok(sqlx::query(old).bind(millis(KEPT)).execute(self.writer()?).await?) }).await?;
        Ok(())
    }

    async fn leave(&self, instance_id: &str) -> Result<()> {
        let sql = text!("DELETE FROM postrider_instance WHERE instance_id = $1");
        retrying(|| async { Ok(sqlx::query(sql).bind(instance_id).execute(self.writer()?).await?) }).await?;
        Ok(())
    }

    async fn instances(&self, within: Duration) -> Result<Vec<Instance>> {
        type InstanceRow = (String, String, String, String, Time, Time);
        let query = sqlx::query_as(text!(
            "SELECT instance_id, role, version, state, started_at, seen_at FROM postrider_instance WHERE seen_at > ",
            earlier!("$1"),
            " ORDER BY instance_id"
        ));
        let rows: Vec<InstanceRow> = query.bind(millis(within)).fetch_all(self.reader()).await?;
        let instance = |(instance_id, role, version, state, started_at, seen_at): InstanceRow| Instance {
            instance_id,
            role,
            version,
            started_at: time(started_at),
            seen_at: time(seen_at),
            // Another version of the program may have written it: what cannot be read is left out.
            running: serde_json::from_str(&state).unwrap_or_default(),
        };
        Ok(rows.into_iter().map(instance).collect())
    }
}

/// Id, kind, subject, since, details, sent, over.
type AlertRow = (String, String, String, Time, String, bool, Option<Time>);

fn alert(row: AlertRow) -> Result<StoredAlert> {
    let (alert_id, kind, subject, since, details, sent, over_at) = row;
    let kind = kind.parse().map_err(|_| Error::corrupt("alert", &kind))?;
    // The column is part of the primary key, so it has an empty text for none.
    let subject = (!subject.is_empty()).then_some(subject);
    Ok(StoredAlert { alert_id, kind, subject, since: time(since), details, sent, over_at: over_at.map(time) })
}

#[async_trait]
impl Alerts for SqlStore {
    async fn alerts(&self) -> Result<Vec<StoredAlert>> {
        let query = sqlx::query_as(text!(
            "SELECT alert_id, alert, subject, since, details, sent, over_at FROM postrider_alert ORDER BY alert, subject"
        ));
        query.fetch_all(self.reader()).await?.into_iter().map(alert).collect()
    }

    async fn begin_alert(&self, new: &NewAlert<'_>) -> Result<bool> {
        let sql = text!(
            "INSERT INTO postrider_alert (alert, subject, alert_id, details, since) VALUES ($1, $2, $3, $4, ",
            now!(),
            ")"
        );
        retrying(|| async {
            let subject = new.subject.unwrap_or_default();
            let query = sqlx::query(sql).bind(new.kind.as_str()).bind(subject).bind(new.alert_id).bind(new.details);
            is_new(query.execute(self.writer()?).await)
        })
        .await
    }

    async fn end_alert(&self, alert_id: &str) -> Result<bool> {
        let sql = text!("UPDATE postrider_alert SET over_at = ", now!(), " WHERE alert_id = $1 AND over_at IS NULL");
        retrying(|| async { Ok(sqlx::query(sql).bind(alert_id).execute(self.writer()?).await?.rows_affected() == 1) })
            .await
    }

    async fn note_alert_sent(&self, alert_id: &str, state: AlertState) -> Result<()> {
        let sql = match state {
            AlertState::Firing => text!("UPDATE postrider_alert SET sent = true WHERE alert_id = $1"),
            AlertState::Over => text!("DELETE FROM postrider_alert WHERE alert_id = $1 AND over_at IS NOT NULL"),
        };
        retrying(|| async { Ok(sqlx::query(sql).bind(alert_id).execute(self.writer()?).await?) }).await?;
        Ok(())
    }
}
