//! Events as a store takes them and gives them back, with what happened to them.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::{List, Page};
use crate::envelope::Envelope;
use crate::error::Result;
use crate::event::EventId;

/// Stored events and the attempts to consume them.
#[async_trait]
pub trait Events: Send + Sync {
    /// Writes events and their deliveries in one transaction of the store's own, for callers without one. One answer per
    /// event, in order; after an error nothing is written.
    async fn publish(&self, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>>;

    /// Gives deliveries to events that arrived by plain `INSERT`, and to events without a subscriber that have one now. At
    /// most `limit` events; concurrent routers share the work.
    async fn route(&self, limit: u32) -> Result<Routed>;

    /// An event with its deliveries and every attempt.
    async fn find(&self, event_id: &str) -> Result<Option<Found>>;

    /// A page of events, the newest first. One indexed filter leads and the others are checked on what it returns, of at most
    /// [`SCAN_EVENTS`](crate::limits::SCAN_EVENTS), so a page may be short although the list goes on. Which events are listed
    /// may lag behind by what the roll-up has not folded; their status does not.
    async fn list(&self, list: &List) -> Result<Page>;

    /// Appends what a remote consumer reports, under the next attempt number.
    async fn append_consumption(&self, report: &Report) -> Result<Appended>;
}

/// An event that is about to be stored.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Checked and complete.
    pub envelope: Envelope,
    /// Whether the id was drawn for this event, so that no other can have it.
    pub fresh_id: bool,
    /// Due this long after the database stores it; overrides `deliver_at`.
    pub delay: Option<Duration>,
    /// Expired this long after the database stores it; overrides `expire_at`.
    pub expire_after: Option<Duration>,
}

/// What happens to an event that no enabled subscription hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unheard {
    /// Stored, and routed when somebody subscribes.
    #[default]
    Keep,
    /// Not stored; the caller is told.
    Skip,
    /// [`Error::Unheard`](crate::Error::Unheard).
    Refuse,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// Stored with its deliveries.
    Accepted(EventId),
    /// Stored; nobody hears it yet.
    Unheard(EventId),
    /// Not stored: nobody hears it.
    Skipped(EventId),
    /// Not stored: it was there already, with the same content.
    Duplicate(EventId),
}

impl Enqueued {
    /// The event's id.
    pub fn event_id(&self) -> &EventId {
        match self {
            Self::Accepted(id) | Self::Unheard(id) | Self::Skipped(id) | Self::Duplicate(id) => id,
        }
    }
}

/// How many events the router has looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Routed {
    /// Given deliveries.
    pub routed: u64,
    /// Found to have no subscriber.
    pub unheard: u64,
}

/// What a remote consumer reports.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Of which event.
    pub event_id: String,
    /// Who.
    pub consumer: String,
    /// Whether its effect happened.
    pub success: bool,
    /// Whether, having failed, it will try again.
    pub will_retry: bool,
    /// What went wrong.
    pub error: Option<String>,
    /// A code for it.
    pub code: Option<String>,
    /// Makes a repeated report the same attempt.
    pub callback_id: Option<String>,
    /// When, by its own clock.
    pub consumed_at: Option<OffsetDateTime>,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is this attempt.
    Attempt(u32),
    /// It had been reported before, as this attempt.
    Repeated(u32),
    /// Nobody expected it: no such event, or the consumer is not one that reports.
    NotExpected,
}

/// An event with everything that happened to it.
pub type Found = crate::status::Record;

/// Whether an event has its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// The router has not seen it.
    New,
    /// It has them.
    Routed,
    /// Nobody hears it yet.
    Unheard,
}

impl Routing {
    /// From what the event's row says that it waits for.
    pub(crate) fn of(waits_for: Option<&str>) -> Self {
        match waits_for {
            None => Self::Routed,
            Some("") => Self::New,
            Some(_) => Self::Unheard,
        }
    }
}

/// One attempt of one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumption {
    /// Who.
    pub consumer: String,
    /// Which attempt; 0 = expected.
    pub attempt: u32,
    /// Whether the effect happened; None for attempt 0.
    pub success: Option<bool>,
    /// Whether, having failed, it will be tried again.
    pub will_retry: bool,
    /// When, by the consumer's clock where it said so.
    pub consumed_at: Option<OffsetDateTime>,
    /// What went wrong.
    pub error: Option<String>,
    /// A code for it.
    pub code: Option<String>,
    /// When it was appended.
    pub created_at: OffsetDateTime,
}
