//! Redrive, expiry and discard of single events.

use async_trait::async_trait;

use super::Record;
use crate::error::{Error, Result};
use crate::limits;
use crate::redrive::RedriveRules;

/// Redrive, expiry and discard, decided on the locked rows of the event.
#[async_trait]
pub trait Redrives: Send + Sync {
    /// Makes one event's delivery on one lane due now, with its attempts reset; inserts it if it is done. Checks only
    /// the lease and the expiry; [`Redrives::redrive_event`] checks the rules too.
    async fn redrive(&self, event_id: &str, lane: &str, target: Option<&str>) -> Result<Redriven>;

    /// Makes the unfinished deliveries of an event due now if the rules allow it, or only those of one consumer, even
    /// of one that subscribed later. Returns the event after the redrive, or
    /// [`Error::Refused`](crate::Error::Refused) if a rule forbids it.
    async fn redrive_event(&self, event_id: &str, consumer: Option<&str>, rules: &RedriveRules) -> Result<Record>;

    /// Expires an event by hand, unless it has been consumed: it is not delivered any more, and its leases are lost.
    /// Returns the event after that, or [`Error::Refused`](crate::Error::Refused).
    async fn expire(&self, event_id: &str) -> Result<Record>;

    /// Ends the delivery of an event to one consumer, whether it waits, is leased or is dead. The reason is appended to the
    /// history as a last failed attempt with the code [`DISCARDED`](crate::entry::DISCARDED), cut to
    /// [`ERROR_CHARS`](crate::limits::ERROR_CHARS). The consumer then counts as failed, its key goes on, and a worker that
    /// holds the delivery loses its lease. A later redrive delivers it again. Returns the event after that, or
    /// [`Error::Refused`](crate::Error::Refused).
    ///
    /// ```
    /// # use postrider::prelude::*;
    /// # use postrider::{Draft, Subscription, Via, store::memory::MemoryStore};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> postrider::Result<()> {
    /// # let store = MemoryStore::new();
    /// # store.set_subscription(&Subscription::new("order.paid", "points", Via::Local)).await?;
    /// # let bus = postrider::Bus::new(std::sync::Arc::new(store.clone()));
    /// # bus.publish(&[bus.prepare(Draft::json("order.paid", &7)?.event_id("e1"))?]).await?;
    /// let event = store.discard("e1", "points", "the order was a test").await?;
    /// assert_eq!(event.standing().status, postrider::status::EventStatus::Failed);
    /// # Ok(()) }
    /// ```
    async fn discard(&self, event_id: &str, consumer: &str, reason: &str) -> Result<Record>;
}

/// The outcome of a redrive of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redriven {
    /// The delivery was waiting or dead, and is due now.
    Due,
    /// The delivery was done or had never existed, and has been inserted.
    Made,
    /// Refused: a worker holds a lease on it.
    InProgress,
    /// Refused: the event is past its expiry.
    Expired,
    /// There is no such event.
    UnknownEvent,
}

/// The text of a discard's reason as it is stored.
pub(super) fn discard_reason(reason: &str) -> Result<String> {
    if reason.trim().is_empty() {
        return Err(Error::invalid("reason", "must say why the delivery is given up".into()));
    }
    Ok(limits::error_text(reason))
}
