//! Lists, as [`crate::store::list`] asks for them.

use time::OffsetDateTime;

use super::error::own;
use super::{SqliteStore, json, rollup, rows};
use crate::error::Result;
use crate::store::Found;
use crate::store::list::{Lead, Scan};

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

    async fn last_and_folded(&self) -> Result<(i64, i64)> {
        sqlx::query_as(sql!("list_last")).fetch_one(&self.reader).await.map_err(own)
    }
}
