//! Lists, as [`crate::store::list`] asks for them.

use time::OffsetDateTime;

use super::{PostgresStore, own, rollup};
use crate::entry::DeliveryStatus;
use crate::error::Result;
use crate::store::Found;
use crate::store::list::{Lead, Scan};
use crate::store::rollup::LOOK_BACK;

impl Scan for PostgresStore {
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
        query.fetch_all(&self.work).await.map_err(own)
    }

    async fn among(&self, lead: Lead, seqs: &[i64]) -> Result<Vec<i64>> {
        let query = match lead {
            Lead::Lookup(hash) => sqlx::query_scalar(sql!("list_among_lookup")).bind(seqs).bind(hash),
            Lead::Status(status) => sqlx::query_scalar(sql!("list_among_status")).bind(seqs).bind(status.as_str()),
            // Whatever is asked for has been found in one of them.
            Lead::Events | Lead::Unfolded => return Ok(seqs.to_vec()),
        };
        query.fetch_all(&self.work).await.map_err(own)
    }

    async fn delivering(&self, seqs: &[i64], status: DeliveryStatus, consumer: Option<&str>) -> Result<Vec<i64>> {
        let query = sqlx::query_scalar(sql!("list_delivering")).bind(seqs).bind(status.as_str()).bind(consumer);
        query.fetch_all(&self.work).await.map_err(own)
    }

    async fn matching(&self, seqs: &[i64], filter: &str) -> Result<Vec<i64>> {
        sqlx::query_scalar(sql!("list_match")).bind(seqs).bind(filter).fetch_all(&self.work).await.map_err(own)
    }

    async fn records(&self, seqs: &[i64]) -> Result<Vec<Found>> {
        let mut session = self.work.acquire().await.map_err(own)?;
        rollup::records(&mut session, seqs).await
    }

    async fn first_from(&self, seq: i64) -> Result<Option<(i64, OffsetDateTime)>> {
        sqlx::query_as(sql!("list_first_from")).bind(seq).fetch_optional(&self.work).await.map_err(own)
    }

    async fn last(&self) -> Result<i64> {
        sqlx::query_scalar(sql!("list_last")).fetch_one(&self.work).await.map_err(own)
    }

    async fn unfolded_after(&self) -> Result<i64> {
        let query = sqlx::query_scalar(sql!("list_unfolded_after")).bind(LOOK_BACK);
        query.fetch_one(&self.work).await.map_err(own)
    }
}
