//! The queries of [`decide::list`](crate::store::decide::list).

use serde_json::{Value, json as object};
use time::OffsetDateTime;

use super::records::records;
use super::{SqlStore, Time, numbers, time};
use crate::entry::DeliveryStatus;
use crate::error::Result;
use crate::store::Record;
use crate::store::batch::unix_ms;
use crate::store::decide::fold::LOOK_BACK;
use crate::store::decide::{Lead, RowFilter, Scan};
use crate::store::sql::json;

/// The parameter of `list_match.sql`.
fn parameter(filter: &RowFilter<'_>) -> Value {
    object!({
        "topic": filter.topic,
        "trace_id": filter.trace_id,
        "parent_event_id": filter.parent_event_id,
        "aggregate_type": filter.aggregate_type,
        "aggregate_id": filter.aggregate_id,
        "event_key": filter.event_key,
        "consumer": filter.consumer,
        "tenant_id": filter.tenant_id,
        "from_ms": filter.from.map(unix_ms),
        "to_ms": filter.to.map(unix_ms),
        // A number, because JSON tables of MySQL and MariaDB differ in how they read `true`.
        "unheard": filter.unheard.then_some(1),
    })
}

impl Scan for SqlStore {
    async fn scan(&self, lead: Lead, above: i64, below: i64, limit: i64) -> Result<Vec<i64>> {
        let query = sqlx::query_scalar(match lead {
            Lead::Lookup(_) => sql!("lists/list_lookup"),
            Lead::Status(_) => sql!("lists/list_status"),
            Lead::Events => sql!("lists/list_events"),
            Lead::Unfolded => sql!("lists/list_unfolded"),
        });
        let query = query.bind(above).bind(below);
        let query = match lead {
            Lead::Lookup(hash) => query.bind(hash),
            Lead::Status(status) => query.bind(status.as_str()),
            Lead::Events | Lead::Unfolded => query,
        };
        Ok(query.bind(limit).fetch_all(self.reader()).await?)
    }

    async fn among(&self, lead: Lead, seqs: &[i64]) -> Result<Vec<i64>> {
        let query = match lead {
            Lead::Lookup(hash) => sqlx::query_scalar(sql!("lists/list_among_lookup")).bind(numbers(seqs)?).bind(hash),
            Lead::Status(status) => {
                sqlx::query_scalar(sql!("lists/list_among_status")).bind(numbers(seqs)?).bind(status.as_str())
            }
            // Every event in `seqs` was found in one of them.
            Lead::Events | Lead::Unfolded => return Ok(seqs.to_vec()),
        };
        Ok(query.fetch_all(self.reader()).await?)
    }

    async fn delivering(&self, seqs: &[i64], status: DeliveryStatus, consumer: Option<&str>) -> Result<Vec<i64>> {
        let query = sqlx::query_scalar(sql!("lists/list_delivering")).bind(numbers(seqs)?);
        Ok(query.bind(consumer).bind(status.as_str()).fetch_all(self.reader()).await?)
    }

    async fn matching(&self, seqs: &[i64], filter: &RowFilter<'_>) -> Result<Vec<i64>> {
        let query = sqlx::query_scalar(sql!("lists/list_match")).bind(numbers(seqs)?).bind(json(&parameter(filter))?);
        Ok(query.fetch_all(self.reader()).await?)
    }

    async fn records(&self, seqs: &[i64]) -> Result<Vec<Record>> {
        records(&mut *self.snapshot().await?, seqs).await
    }

    async fn search_ids(&self, from: &str, below: &str, limit: i64) -> Result<Vec<i64>> {
        let query = sqlx::query_scalar(sql!("lists/search_ids"));
        Ok(query.bind(from).bind(below).bind(limit).fetch_all(self.reader()).await?)
    }

    async fn sequences(&self, event_ids: &[String]) -> Result<Vec<i64>> {
        Ok(sqlx::query_scalar(sql!("lists/list_ids")).bind(json(event_ids)?).fetch_all(self.reader()).await?)
    }

    async fn first_from(&self, seq: i64) -> Result<Option<(i64, OffsetDateTime)>> {
        let query =
            sqlx::query_as(text!("SELECT seq, created_at FROM postrider_event WHERE seq >= $1 ORDER BY seq LIMIT 1"));
        let first: Option<(i64, Time)> = query.bind(seq).fetch_optional(self.reader()).await?;
        Ok(first.map(|(seq, created_at)| (seq, time(created_at))))
    }

    async fn last(&self) -> Result<i64> {
        let query = sqlx::query_scalar(text!("SELECT coalesce(max(seq), 0) FROM postrider_event"));
        Ok(query.fetch_one(self.reader()).await?)
    }

    async fn unfolded_after(&self) -> Result<i64> {
        let query = sqlx::query_scalar(sql!("lists/list_unfolded_after")).bind(LOOK_BACK);
        Ok(query.fetch_one(self.reader()).await?)
    }
}
