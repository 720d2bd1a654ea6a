//! What the story of a business key reads beside its events; see [`story`](crate::story).

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::error::Result;

/// Rows of the inbox and of business keys, for people.
#[async_trait]
pub trait Stories: Send + Sync {
    /// The inbox rows of these consumers and events, as far as they exist, in no order.
    async fn received(&self, events: &[(String, String)]) -> Result<Vec<ReceivedEvent>>;

    /// The rows with one of these business keys, of any scope, at most [`STORED_KEYS`].
    async fn keys_named(&self, keys: &[String]) -> Result<Vec<StoredKey>>;
}

/// Rows of business keys that one look returns.
pub const STORED_KEYS: u32 = 1_000;

/// An event that a consumer has received, with what the consumer has kept about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedEvent {
    /// The consumer.
    pub consumer: String,
    /// The event.
    pub event_id: String,
    /// When it was received.
    pub received_at: OffsetDateTime,
    /// The business key of its effect.
    pub idempotency_key: Option<String>,
    /// The result, as JSON.
    pub result: Option<String>,
}

/// A business key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The namespace of the key.
    pub scope: String,
    /// The key.
    pub key: String,
    /// `PROCESSING`, `SUCCESS` or `FAILED`.
    pub status: String,
    /// When the row was last written.
    pub updated_at: OffsetDateTime,
}
