//! Redrive and expiry of single events.

use async_trait::async_trait;

use super::Found;
use crate::error::Result;
use crate::redrive::RedriveRules;

/// Redrive and expiry, decided on the locked rows of the event.
#[async_trait]
pub trait Redrives: Send + Sync {
    /// Makes one event's delivery on one lane due now, with its attempts reset; inserts it if it is done. Checks only
    /// the lease and the expiry; [`Redrives::redrive_event`] checks the rules too.
    async fn redrive(&self, event_id: &str, lane: &str, target: &str) -> Result<Redriven>;

    /// Makes the unfinished deliveries of an event due now if the rules allow it, or only those of one consumer, even
    /// of one that subscribed later. Returns the event after the redrive, or
    /// [`Error::Refused`](crate::Error::Refused) if a rule forbids it.
    async fn redrive_event(&self, event_id: &str, consumer: Option<&str>, rules: &RedriveRules) -> Result<Found>;

    /// Expires an event by hand, unless it has been consumed: it is not delivered any more, and its leases are lost.
    /// Returns the event after that, or [`Error::Refused`](crate::Error::Refused).
    async fn expire(&self, event_id: &str) -> Result<Found>;
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
