//! Counts, ages and holders.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::records::records;
use super::rows::get;
use super::{Conn, Row, SNAPSHOT_HOLDERS, SqlStore, Time, time};
use crate::alert::SnapshotHolder;
use crate::error::Result;
use crate::store::batch::millis;
use crate::store::sql::duration;
use crate::store::{DeadLetter, DeliveryId, Figures, Holding, LaneCounts, Minute, figure};

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

    async fn dead_letters(&self, lane: &str, limit: u32) -> Result<Vec<DeadLetter>> {
        let sql = text!(
            "SELECT event_seq, id FROM postrider_delivery WHERE lane = $1 AND ",
            is_dead!(),
            " ORDER BY due_at DESC, id DESC LIMIT $2"
        );
        let query = sqlx::query_as(sql).bind(lane).bind(i64::from(limit));
        let dead: Vec<(i64, i64)> = query.fetch_all(self.reader()).await?;
        let ids: Vec<_> = dead.into_iter().map(|(sequence, number)| DeliveryId::new(sequence, number)).collect();
        self.find_dead(&ids).await
    }

    async fn find_dead(&self, deliveries: &[DeliveryId]) -> Result<Vec<DeadLetter>> {
        let sequences: BTreeSet<_> = deliveries.iter().map(|id| id.sequence).collect();
        let sequences: Vec<_> = sequences.into_iter().collect();
        let mut session = self.snapshot().await?;
        let mut letters = figure::dead_letters(&records(&mut session, &sequences).await?);
        letters.retain(|letter| deliveries.contains(&letter.id));
        // In the order of the ids that were asked for.
        letters.sort_by_key(|letter| deliveries.iter().position(|id| *id == letter.id));
        for letter in &mut letters {
            letter.held = followers(&mut session, letter).await?;
        }
        Ok(letters)
    }

    async fn snapshot_holders(&self, older_than: Duration) -> Result<Vec<SnapshotHolder>> {
        let Some(sql) = SNAPSHOT_HOLDERS else { return Ok(Vec::new()) };
        let query = sqlx::query_as(sql).bind(millis(older_than));
        let held: Vec<(String, i64)> = query.fetch_all(self.reader()).await?;
        Ok(held.into_iter().map(|(holder, age)| SnapshotHolder { holder, age: duration(age) }).collect())
    }
}

/// How many deliveries wait behind a dead one.
async fn followers(conn: &mut Conn, letter: &DeadLetter) -> Result<u64> {
    let Some(key) = &letter.key else { return Ok(0) };
    let sql = text!(
        "SELECT count(*) FROM postrider_delivery d WHERE NOT ",
        is_dead!(),
        " AND event_key = $1 AND event_seq > $2 \
         AND lane = (SELECT f.lane FROM postrider_delivery f WHERE f.event_seq = $3 AND f.id = $4)"
    );
    let DeliveryId { sequence, number, .. } = letter.id;
    let query = sqlx::query_scalar(sql).bind(key).bind(sequence).bind(sequence).bind(number);
    let count: i64 = query.fetch_one(conn).await?;
    Ok(count.unsigned_abs())
}

fn lane_counts(row: &Row) -> Result<(String, LaneCounts)> {
    let count = |column| get::<i64>(row, column).map(i64::unsigned_abs);
    let counts =
        LaneCounts { new: count(1)?, processing: count(2)?, failed: count(3)?, dead: count(4)?, held: count(5)? };
    Ok((get(row, 0)?, counts))
}
