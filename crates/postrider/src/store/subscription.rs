//! Which consumer receives which topic, and which lanes are paused.

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::error::Result;
use crate::subscription::{StoredSubscription, Subscription};

/// Subscriptions and paused lanes.
#[async_trait]
pub trait Subscriptions: Send + Sync {
    /// Registers a consumer that is defined in code. Writes only if the subscription is unknown: what an operator has
    /// disabled, changed or removed stays as it is.
    async fn register(&self, subscription: &Subscription) -> Result<()>;

    /// Writes an operator's choice and replaces what is stored.
    async fn set_subscription(&self, subscription: &Subscription) -> Result<()>;

    /// Removes a subscription permanently. Returns false if it does not exist.
    async fn remove_subscription(&self, topic: &str, consumer: &str) -> Result<bool>;

    /// The subscriptions to a topic, or all; by topic, sort order and consumer. Removed ones are left out.
    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>>;

    /// Stops or resumes the claims of a lane on every instance; the choice survives restarts. Relays apply it within
    /// two seconds, and finish what they have claimed.
    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()>;

    /// The lanes that are paused.
    async fn paused(&self) -> Result<BTreeSet<String>>;
}
