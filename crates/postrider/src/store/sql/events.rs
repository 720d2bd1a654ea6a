//! Events outside the caller's transaction.

use async_trait::async_trait;
use time::OffsetDateTime;

use super::records::{consumer_attempt, with_rows};
use super::rows::get;
use super::{SqlStore, stored};
use crate::error::Result;
use crate::limits;
use crate::store::decide;
use crate::store::enlist;
use crate::store::sql::retrying;
use crate::store::{
    Appended, AttemptList, ConsumerAttempt, Counted, Enqueued, Events, Filter, List, NewEvent, Page, Record, Report,
    Routed, Unheard,
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

    async fn attempts(&self, list: &AttemptList) -> Result<Vec<ConsumerAttempt>> {
        list.check()?;
        let below = list.below();
        let query = sqlx::query(text!(
            "SELECT c.event_seq, c.consumer, c.attempt, c.success, c.will_retry, c.consumed_at, c.error, c.code, \
             c.created_at, e.event_id, e.topic, e.tenant_id \
             FROM postrider_consumption c JOIN postrider_event e ON e.seq = c.event_seq \
             WHERE c.consumer = $1 AND c.consumed_at >= $2 AND c.consumed_at <= $3 \
             AND (c.consumed_at < $4 OR c.event_seq < $5 OR c.event_seq = $6 AND c.attempt < $7) \
             ORDER BY c.consumed_at DESC, c.event_seq DESC, c.attempt DESC LIMIT $8"
        ));
        let query = query.bind(&list.consumer).bind(stored(list.from.unwrap_or(OffsetDateTime::UNIX_EPOCH)));
        let query = query.bind(stored(below.at)).bind(stored(below.at)).bind(below.sequence).bind(below.sequence);
        let query = query.bind(i64::from(below.attempt)).bind(i64::from(list.limit));
        query.fetch_all(self.reader()).await?.iter().map(consumer_attempt).collect()
    }

    async fn append_consumption(&self, report: &Report) -> Result<Appended> {
        retrying(|| self.append_consumption_once(report)).await
    }
}
