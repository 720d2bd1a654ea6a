//! Events outside the caller's transaction.

use async_trait::async_trait;

use super::SqlStore;
use super::records::with_rows;
use super::rows::get;
use crate::error::Result;
use crate::limits;
use crate::store::decide;
use crate::store::enlist;
use crate::store::sql::retrying;
use crate::store::{
    Appended, Counted, Enqueued, Events, Filter, List, NewEvent, Page, Record, Report, Routed, Unheard,
};

#[async_trait]
impl Events for SqlStore {
    async fn publish(&self, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        retrying(|| enlist::publish(self, batch, unheard)).await
    }

    async fn route(&self, limit: u32) -> Result<Routed> {
        retrying(|| self.route_once(limit.min(limits::PASS_ROWS))).await
    }

    async fn find(&self, event_id: &str) -> Result<Option<Record>> {
        let mut session = self.snapshot().await?;
        let event = sqlx::query(sql!("events/find")).bind(event_id).fetch_optional(&mut *session).await?;
        let Some(event) = event else { return Ok(None) };
        let seqs = [get(&event, 0)?];
        Ok(with_rows(&mut session, &[event], &seqs).await?.pop())
    }

    async fn list(&self, list: &List) -> Result<Page> {
        decide::list(self, list).await
    }

    async fn count_events(&self, filter: &Filter) -> Result<Counted> {
        decide::count_events(self, filter).await
    }

    async fn search(&self, text: &str, limit: u32) -> Result<Vec<Record>> {
        decide::search(self, text, limit).await
    }

    async fn append_consumption(&self, report: &Report) -> Result<Appended> {
        retrying(|| self.append_consumption_once(report)).await
    }
}
