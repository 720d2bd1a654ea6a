//! Lists, as [`crate::store::list`] asks for them.

use time::OffsetDateTime;

use super::error::own;
use super::{SqliteStore, json, rollup, rows};
use crate::entry::DeliveryStatus;
use crate::error::Result;
use crate::store::Found;
use crate::store::list::{Lead, Scan};
use crate::store::rollup::LOOK_BACK;

impl Scan for SqliteStore {
    async fn scan(&self, lead: Lead, above: i64, below: i64, limit: i64) -> Result<Vec<i64>> {
        let query = sqlx::query_scalar(match lead {
            Lead::Lookup(_) => sql!("list_lookup"),
            Lead::Status(_) => sql!("list_status"),
            Lead::Events => sql!("list_events"),
            Lead::Unfolded => sql!("list_unfolded"),
        });
        let query = query.bind(above).bind(below).bind(limit);
        let query = match lead {
            Lead::Lookup(hash) => query.bind(hash),
            Lead::Status(status) => query.bind(status.as_str()),
            Lead::Events | Lead::Unfolded => query,
        };
        query.fetch_all(&self.reader).await.map_err(own)
    }

    async fn among(&self, lead: Lead, seqs: &[i64]) -> Result<Vec<i64>> {
        let query = match lead {
            Lead::Lookup(hash) => sqlx::query_scalar(sql!("list_among_lookup")).bind(json(seqs)?).bind(hash),
            Lead::Status(status) => {
                sqlx::query_scalar(sql!("list_among_status")).bind(json(seqs)?).bind(status.as_str())
            }
            // Whatever is asked for has been found in one of them.
            Lead::Events | Lead::Unfolded => return Ok(seqs.to_vec()),
        };
        query.fetch_all(&self.reader).await.map_err(own)
    }

    async fn delivering(&self, seqs: &[i64], status: DeliveryStatus, consumer: Option<&str>) -> Result<Vec<i64>> {
        let query = sqlx::query_scalar(sql!("list_delivering")).bind(json(seqs)?).bind(status.as_str()).bind(consumer);
        query.fetch_all(&self.reader).await.map_err(own)
    }

    async fn matching(&self, seqs: &[i64], filter: &str) -> Result<Vec<i64>> {
        let query = sqlx::query_scalar(sql!("list_match")).bind(json(seqs)?).bind(filter);
        query.fetch_all(&self.reader).await.map_err(own)
    }

    async fn records(&self, seqs: &[i64]) -> Result<Vec<Found>> {
        // One transaction, so that a delivery that is done meanwhile is either there or in the history.
        let mut tx = self.reader.begin().await.map_err(own)?;
        rollup::records(&mut tx, seqs).await
    }

    async fn first_from(&self, seq: i64) -> Result<Option<(i64, OffsetDateTime)>> {
        let query = sqlx::query_as(sql!("list_first_from")).bind(seq);
        let first: Option<(i64, i64)> = query.fetch_optional(&self.reader).await.map_err(own)?;
        Ok(first.map(|(seq, created_at)| (seq, rows::time(created_at))))
    }

    async fn last(&self) -> Result<i64> {
        sqlx::query_scalar(sql!("list_last")).fetch_one(&self.reader).await.map_err(own)
    }

    async fn unfolded_after(&self) -> Result<i64> {
        let query = sqlx::query_scalar(sql!("list_unfolded_after")).bind(LOOK_BACK);
        query.fetch_one(&self.reader).await.map_err(own)
    }
}
