//! What the story of a business key reads beside its events.

use async_trait::async_trait;

use super::MemoryStore;
use super::state::KeyStatus;
use crate::error::Result;
use crate::store::{ReceivedEvent, STORED_KEYS, StoredKey, Stories};

#[async_trait]
impl Stories for MemoryStore {
    async fn received(&self, events: &[(String, String)]) -> Result<Vec<ReceivedEvent>> {
        Ok(self.read(|state, _| {
            let row = |id: &(String, String)| {
                let row = state.inbox.get(id)?;
                Some(ReceivedEvent {
                    consumer: id.0.clone(),
                    event_id: id.1.clone(),
                    received_at: row.received_at,
                    idempotency_key: row.idempotency_key.clone(),
                    result: row.result.clone(),
                })
            };
            events.iter().filter_map(row).collect()
        }))
    }

    async fn keys_named(&self, keys: &[String]) -> Result<Vec<StoredKey>> {
        Ok(self.read(|state, _| {
            let named = state.keys.iter().filter(|((_, key), _)| keys.contains(key));
            let stored = named.map(|((scope, key), row)| StoredKey {
                scope: scope.clone(),
                key: key.clone(),
                status: match row.status {
                    KeyStatus::Processing => "PROCESSING",
                    KeyStatus::Success(_) => "SUCCESS",
                    KeyStatus::Failed(_) => "FAILED",
                }
                .into(),
                updated_at: row.updated_at,
            });
            stored.take(STORED_KEYS as usize).collect()
        }))
    }
}
