//! Events as a store receives and returns them, with their history.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;
use tracing::Span;

use super::{AttemptList, ConsumerAttempt, Counted, Filter, List, Page};
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
    async fn find(&self, event_id: &str) -> Result<Option<Record>>;

    /// A page of events, the newest first. One indexed filter leads and the others are checked on what it returns, of at most
    /// [`SCAN_EVENTS`](crate::limits::SCAN_EVENTS), so a page may be short although the list goes on. Which events are listed
    /// may lag behind by what the roll-up has not folded; their status does not.
    async fn list(&self, list: &List) -> Result<Page>;

    /// How many events match. At most [`SCAN_EVENTS`](crate::limits::SCAN_EVENTS) are read for each status; beyond them the
    /// number is an estimate. It may lag behind by what the roll-up has not folded.
    async fn count_events(&self, filter: &Filter) -> Result<Counted>;

    /// Events that a text names, at most `limit` for each way: by their whole id, trace, key or aggregate id (without its
    /// type), or by the beginning of their id or trace, from [`PREFIX_CHARS`](crate::limits::PREFIX_CHARS) characters up. Only
    /// ids of events are found before the roll-up has folded them. Keys and aggregate ids are found by their beginning too, among the
    /// newest 200 events that begin alike. Without payload and metadata.
    async fn search(&self, text: &str, limit: u32) -> Result<Vec<Record>>;

    /// The attempts of one consumer, by the time of consumption, the newest first. Attempt 0 has no time and is not among
    /// them; nor is what was not kept as history.
    async fn attempts(&self, list: &AttemptList) -> Result<Vec<ConsumerAttempt>>;

    /// Appends what a remote consumer reports, under the next attempt number.
    async fn append_consumption(&self, report: &Report) -> Result<Appended>;
}

/// An event that is about to be stored.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The validated, complete envelope.
    pub envelope: Envelope,
    /// Whether the id was generated for this event, so that it cannot be a duplicate.
    pub fresh_id: bool,
    /// Due this long after the database stores it; overrides `deliver_at`.
    pub delay: Option<Duration>,
    /// Expired this long after the database stores it; overrides `expire_at`.
    pub expire_after: Option<Duration>,
    /// The span `publish`, which ends when the event is dropped.
    pub(crate) span: Span,
}

/// What happens to an event without an enabled subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unheard {
    /// It is stored, and routed once there is a subscription.
    #[default]
    Keep,
    /// It is not stored, and the caller gets [`Enqueued::Skipped`].
    Skip,
    /// The call fails with [`Error::Unheard`](crate::Error::Unheard).
    Refuse,
}

/// The result of an enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// Stored with its deliveries.
    Accepted(EventId),
    /// Stored without a subscriber.
    Unheard(EventId),
    /// Not stored, because it has no subscriber.
    Skipped(EventId),
    /// Not stored, because it exists already with the same content.
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

/// How many events one pass of the router has handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Routed {
    /// Events that got deliveries.
    pub routed: u64,
    /// Events without a subscriber.
    pub unheard: u64,
}

/// The report of a remote consumer.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The event.
    pub event_id: String,
    /// The consumer.
    pub consumer: String,
    /// Whether its effect happened.
    pub success: bool,
    /// Whether it will try again after a failure.
    pub will_retry: bool,
    /// The error text.
    pub error: Option<String>,
    /// The error code.
    pub code: Option<String>,
    /// Identifies the report: a repeated one is the same attempt.
    pub callback_id: Option<String>,
    /// When it was consumed, by the consumer's clock.
    pub consumed_at: Option<OffsetDateTime>,
}

/// The result of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// Appended as this attempt.
    Attempt(u32),
    /// Reported before, as this attempt.
    Repeated(u32),
    /// Not appended: no such event, or the consumer is not expected to report.
    NotExpected,
}

/// An event with everything that happened to it.
pub use crate::status::Record;

/// Whether an event has its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// The router has not processed it yet.
    New,
    /// It has its deliveries.
    Routed,
    /// It has no subscriber yet.
    Unheard,
}

impl Routing {
    /// Reads the column `waits_for` of the event's row.
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
    /// The consumer.
    pub consumer: String,
    /// The attempt number; 0 means that a report is expected.
    pub attempt: u32,
    /// Whether the effect happened; `None` for attempt 0.
    pub success: Option<bool>,
    /// Whether it will be tried again after a failure.
    pub will_retry: bool,
    /// When it was consumed, by the consumer's clock if reported.
    pub consumed_at: Option<OffsetDateTime>,
    /// The error text.
    pub error: Option<String>,
    /// The error code.
    pub code: Option<String>,
    /// When it was appended.
    pub created_at: OffsetDateTime,
}
