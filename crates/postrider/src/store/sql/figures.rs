//! Counts, ages and holders.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::rows::get;
use super::{Row, SqlStore, Time, time};
use crate::alert::SnapshotHolder;
use crate::error::Result;
use crate::store::sql::duration;
use crate::store::{Figures, Holding, LaneCounts, Minute, figure};

#[async_trait]
impl Figures for SqlStore {
    async fn counts(&self) -> Result<BTreeMap<String, LaneCounts>> {
        let rows = sqlx::query(sql!("figures/counts")).fetch_all(self.reader()).await?;
        rows.iter().map(lane_counts).collect()
    }

    async fn figures(&self, from: OffsetDateTime, to: OffsetDateTime) -> Result<Vec<Minute>> {
        let query = sqlx::query_as(text!(
            "SELECT minute, created, sent, consumed, failed, dead FROM postrider_figure \
             WHERE minute >= $1 AND minute < $2 ORDER BY minute"
        ));
        let query = query.bind(figure::minute_of(from)).bind(figure::minute_of(to));
        let rows: Vec<(i64, i64, i64, i64, i64, i64)> = query.fetch_all(self.reader()).await?;
        Ok(rows.into_iter().map(|row| figure::minute(row.into())).collect())
    }

    async fn holdings(&self) -> Result<Vec<Holding>> {
        type HoldingRow = (Option<String>, String, String, i64, Time);
        let rows: Vec<HoldingRow> = sqlx::query_as(sql!("figures/holdings")).fetch_all(self.reader()).await?;
        let holding = |(owner, kind, name, count, until): HoldingRow| Holding {
            owner: owner.unwrap_or_default(),
            kind,
            name,
            count: count.unsigned_abs(),
            until: time(until),
        };
        Ok(rows.into_iter().map(holding).collect())
    }

    async fn oldest_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        let mut waits = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let query = sqlx::query_scalar(sql!("figures/oldest_due")).bind(lane).bind(lane);
            let wait: Option<i64> = query.fetch_one(self.reader()).await?;
            waits.push(wait.map(duration));
        }
        Ok(waits)
    }

    async fn oldest_pending(&self) -> Result<Option<Duration>> {
        Ok(self.oldest_pending_ms().await?.map(duration))
    }

    async fn snapshot_holders(&self, older_than: Duration) -> Result<Vec<SnapshotHolder>> {
        self.find_snapshot_holders(older_than).await
    }
}

fn lane_counts(row: &Row) -> Result<(String, LaneCounts)> {
    let count = |column| get::<i64>(row, column).map(i64::unsigned_abs);
    let counts =
        LaneCounts { new: count(1)?, processing: count(2)?, failed: count(3)?, dead: count(4)?, held: count(5)? };
    Ok((get(row, 0)?, counts))
}
