//! Keys behind dead deliveries: what stops them, and who lets them go on.

use async_trait::async_trait;
use serde_json::json;
use time::OffsetDateTime;

use super::DeadHead;
use super::audit::Change;
use crate::error::Result;
use crate::limits;

/// Dead deliveries that one look at the keys of a lane reads.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) const LOOKED_AT: i64 = 10_000;
/// Followers of a key that are counted.
pub(super) const FOLLOWERS: i64 = 1_000;

/// What stops the keys of a lane. A key behind a dead delivery waits if its lane holds it ([`DeadHead::Hold`]), until a person
/// redrives or discards the dead delivery, or lets the key go on without it.
#[async_trait]
pub trait KeyOrder: Send + Sync {
    /// Lets the later deliveries of a key go on without its dead ones ([`DeadHead::Skip`]), or makes them wait again
    /// ([`DeadHead::Hold`]). It is about the deliveries that are dead now: one that dies later stops the key again, and a redriven
    /// one has its place in front again. What is leased already goes on. Returns `None` if no delivery of the key is dead in this
    /// lane.
    ///
    /// ```
    /// # use postrider::prelude::*;
    /// # use postrider::store::{Buried, Claim, DeadHead, History, memory::MemoryStore};
    /// # use postrider::{Draft, Subscription, Via};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> postrider::Result<()> {
    /// # let store = MemoryStore::new();
    /// # store.set_subscription(&Subscription::new("order.paid", "points", Via::Local)).await?;
    /// # let bus = postrider::Bus::new(std::sync::Arc::new(store.clone()));
    /// # let event = |id: &str| bus.prepare(Draft::json("order.paid", &7)?.event_id(id).key("order-7"));
    /// # bus.publish(&[event("e1")?, event("e2")?]).await?;
    /// # let claim = Claim::new("points", 1);
    /// # let lease = store.claim_keyed(&claim, DeadHead::Hold).await?;
    /// # let dead = Buried { id: lease.deliveries[0].id, tried: true, error: "no account".into(), code: None };
    /// # store.bury(lease.token, &[dead], History::Keep).await?;
    /// assert!(store.claim_keyed(&claim, DeadHead::Hold).await?.deliveries.is_empty(), "e2 waits behind e1");
    /// store.set_dead_head("points", "order-7", DeadHead::Skip).await?;
    /// assert_eq!(store.claim_keyed(&claim, DeadHead::Hold).await?.deliveries[0].envelope.event_id.as_str(), "e2");
    /// # Ok(()) }
    /// ```
    async fn set_dead_head(&self, lane: &str, key: &str, rule: DeadHead) -> Result<Option<DeadKey>>;

    /// Keys of a lane with a dead delivery, by the order of the first dead event; at most `limit`.
    async fn dead_keys(&self, lane: &str, limit: u32) -> Result<Vec<DeadKey>>;

    /// What a delivery of a key waits for: the first delivery in front of `sequence`, of those that stop the key. With
    /// [`DeadHead::Skip`] dead ones do not.
    async fn key_front(&self, lane: &str, key: &str, sequence: i64, rule: DeadHead) -> Result<Option<KeyFront>>;
}

/// A key with a dead delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadKey {
    /// The key.
    pub key: String,
    /// The first event of the key whose delivery is dead.
    pub event_id: String,
    /// Its topic.
    pub topic: String,
    /// Dead deliveries of the key.
    pub dead: u32,
    /// Whether the later deliveries wait, or a person lets them go on.
    pub rule: DeadHead,
    /// When a person last let the key go on, if it goes on.
    pub skipped_at: Option<OffsetDateTime>,
    /// Deliveries behind the first dead one that are not done, at most 1,000.
    pub waiting: u32,
}

/// A delivery in front of another one of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFront {
    /// Its event.
    pub event_id: String,
    /// The topic of the event.
    pub topic: String,
    /// Whether it is dead, so that a person has to act.
    pub dead: bool,
    /// Deliveries in front that are not dead, at most 1,000.
    pub ahead: u32,
}

/// What is known of the dead deliveries of one key.
#[derive(Debug, Clone, Default)]
pub(super) struct DeadRows {
    pub(super) dead: u32,
    pub(super) skipped: u32,
    pub(super) skipped_at: Option<OffsetDateTime>,
}

impl DeadRows {
    /// A key goes on only if a person has let it go on without each of its dead deliveries.
    pub(super) fn rule(&self) -> DeadHead {
        if self.skipped == self.dead { DeadHead::Skip } else { DeadHead::Hold }
    }

    pub(super) fn of_key(self, key: String, (event_id, topic): (String, String), waiting: u32) -> DeadKey {
        let rule = self.rule();
        let skipped_at = self.skipped_at.filter(|_| rule == DeadHead::Skip);
        DeadKey { key, event_id, topic, dead: self.dead, rule, skipped_at, waiting }
    }
}

impl Change {
    /// A key goes on, or waits again.
    pub(super) fn dead_head(before: DeadHead, after: &DeadKey) -> Self {
        let state = |rule: DeadHead| json!({ "key": after.key, "deadHead": word(rule), "dead": after.dead });
        let mut now = state(after.rule);
        now["waiting"] = after.waiting.into();
        Self::new(state(before), now)
    }
}

fn word(rule: DeadHead) -> &'static str {
    match rule {
        DeadHead::Hold => "hold",
        DeadHead::Skip => "skip",
    }
}

/// Checks lane and key, so that stores do not have to.
pub(super) fn check(lane: &str, key: &str) -> Result<()> {
    limits::name("consumerId", lane)?;
    limits::text("key", key, limits::KEY_CHARS)
}
