//! What the checks of the promises read and write; see [`Promises`](crate::Promises).

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::error::Result;

/// How long results of checks are kept: a day, and the half hour that has begun.
pub const PROMISE_HALF_HOURS: i64 = 49;

/// Facts for the checks that no other role has, and the results of the checks.
#[async_trait]
pub trait PromiseChecks: Send + Sync {
    /// How often the inbox has stopped each of these events, by consumer. Events that came once are left out.
    async fn repeats(&self, event_ids: &[&str]) -> Result<Vec<Repeat>>;

    /// The sum of the repeats of events that came again within `within`, of at most 10,000 events.
    async fn count_repeats(&self, within: Duration) -> Result<u64>;

    /// Business keys that one consumer has stored for two events, of inbox rows that are younger than `within`; at most `limit`.
    async fn doubled_keys(&self, within: Duration, limit: u32) -> Result<Vec<DoubledKey>>;

    /// Those of the events that were once expected to reach a consumer, although none of their rows may show it now.
    async fn were_expected(&self, consumer: &str, sequences: &[i64]) -> Result<Vec<i64>>;

    /// Writes the result of a check into its half hour, and removes results that are older than a day.
    async fn note_promise(&self, result: &PromiseNote) -> Result<()>;

    /// The results of the last day, by promise and half hour.
    async fn promises(&self) -> Result<Vec<StoredPromise>>;
}

/// An event that came to a consumer again, after its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// The consumer.
    pub consumer: String,
    /// The event.
    pub event_id: String,
    /// How often the inbox has stopped it.
    pub repeats: u32,
    /// When it last did.
    pub repeated_at: OffsetDateTime,
}

/// One business key with two effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubledKey {
    /// The consumer that had both effects.
    pub consumer: String,
    /// The business key.
    pub key: String,
    /// The event of the first effect.
    pub first: String,
    /// The event of another one.
    pub second: String,
}

/// The result of a check, to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromiseNote {
    /// The name of the promise.
    pub promise: String,
    /// The half hour since 1970, by the database's clock.
    pub half_hour: i64,
    /// Whether it holds.
    pub kept: bool,
    /// Whether events wait so that it holds.
    pub strained: bool,
    /// JSON: figures, events and keys.
    pub result: String,
}

/// The result of a check in one half hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPromise {
    /// What was written last. `kept` and `strained` are about the whole half hour.
    pub note: PromiseNote,
    /// When it was last checked.
    pub checked_at: OffsetDateTime,
}

/// The half hour of a time, counted from 1970.
pub fn half_hour_of(at: OffsetDateTime) -> i64 {
    at.unix_timestamp().div_euclid(1_800)
}
