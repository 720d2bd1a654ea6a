//! Lists, as [`crate::store::list`] asks for them.

use time::OffsetDateTime;

use super::{PostgresStore, own, rollup};
use crate::error::Result;
use crate::store::Found;
use crate::store::list::{Lead, Scan};

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

    async fn last_and_folded(&self) -> Result<(i64, i64)> {
        sqlx::query_as(sql!("list_last")).fetch_one(&self.work).await.map_err(own)
    }
}
