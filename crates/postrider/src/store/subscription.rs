//! Which consumer receives which topic, which lanes are paused, and how often each tries.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::limits;
use crate::subscription::{RABBITMQ, StoredSubscription, Subscription};

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

    /// The removed subscriptions, as they were, by topic and consumer. What was set up for them may still be there.
    async fn removed_subscriptions(&self) -> Result<Vec<StoredSubscription>>;

    /// Stops or resumes the claims of a lane on every instance; the choice survives restarts. Relays apply it within
    /// two seconds, and finish what they have claimed.
    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()>;

    /// The lanes that are paused.
    async fn paused(&self) -> Result<BTreeSet<String>>;

    /// Records how often a lane tries, for operators and views. A relay does so when it starts. `*` stands for lanes that have no
    /// record of their own.
    async fn record_max_attempts(&self, lane: &str, max_attempts: u32) -> Result<()>;

    /// How often each recorded lane tries.
    async fn max_attempts(&self) -> Result<BTreeMap<String, u32>>;

    /// Gives a consumer another name, in one transaction: its subscriptions, its deliveries (waiting, leased and dead), its
    /// inbox rows, its attempts and its pause. What was consumed under the old name is not consumed again, and keys stay in
    /// order. Rename before a program with the new name starts.
    ///
    /// - The old subscriptions are kept as removed ones, so that a restart of the old program does not bring them back.
    /// - A worker that holds a delivery may still settle, retry or release it. A consumer in a transaction has its effect
    ///   rolled back ([`Error::LeaseLost`]); the effect happens under the new name, when the lease has ended.
    /// - A producer's transaction that is open during the rename may write one more delivery for the old name. Call it again:
    ///   if no subscription has the old name, the new one may be in use, and what is left moves.
    /// - Audit records, and bulk operations that name the consumer, keep the old name.
    ///
    /// Returns [`Error::Refused`] if nothing has the old name, if the new one is in use, or if the consumer reads a queue of
    /// the broker.
    async fn rename_consumer(&self, from: &str, to: &str) -> Result<Renamed>;
}

/// What a rename has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Renamed {
    /// Subscriptions.
    pub subscriptions: u64,
    /// Deliveries: waiting, leased and dead.
    pub deliveries: u64,
    /// Inbox rows.
    pub received: u64,
    /// Attempts in the history.
    pub attempts: u64,
}

/// Checks the names of a rename.
pub(super) fn check_rename(from: &str, to: &str) -> Result<()> {
    limits::name("to", to)?;
    if to == RABBITMQ || to.starts_with("postrider") {
        return Err(Error::invalid("to", format!("`{RABBITMQ}` and names that start with `postrider` are reserved")));
    }
    if from == to {
        return Err(Error::invalid("to", "is the name that the consumer has".into()));
    }
    Ok(())
}
