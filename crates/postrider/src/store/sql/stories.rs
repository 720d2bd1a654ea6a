//! What the story of a business key reads beside its events.

use async_trait::async_trait;

use super::{SqlStore, Time, time};
use crate::error::Result;
use crate::store::sql::json;
use crate::store::{ReceivedEvent, STORED_KEYS, StoredKey, Stories};

#[async_trait]
impl Stories for SqlStore {
    async fn received(&self, events: &[(String, String)]) -> Result<Vec<ReceivedEvent>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        type InboxRow = (String, String, Time, Option<String>, Option<String>);
        let query = sqlx::query_as(sql!("stories/received")).bind(json(events)?);
        let rows: Vec<InboxRow> = query.fetch_all(self.reader()).await?;
        let received = |(consumer, event_id, at, idempotency_key, result): InboxRow| ReceivedEvent {
            consumer,
            event_id,
            received_at: time(at),
            idempotency_key,
            result,
        };
        Ok(rows.into_iter().map(received).collect())
    }

    async fn keys_named(&self, keys: &[String]) -> Result<Vec<StoredKey>> {
        let query = sqlx::query_as(sql!("stories/keys_named")).bind(json(keys)?).bind(i64::from(STORED_KEYS));
        let rows: Vec<(String, String, String, Time)> = query.fetch_all(self.reader()).await?;
        let stored = |(scope, key, status, at)| StoredKey { scope, key, status, updated_at: time(at) };
        Ok(rows.into_iter().map(stored).collect())
    }
}
