//! What one consumer did, by time.

use std::fmt;
use std::str::FromStr;

use time::OffsetDateTime;

use super::Consumption;
use crate::error::{Error, Result};
use crate::limits;

/// Which attempts of a consumer to list, the newest first.
#[derive(Debug, Clone)]
pub struct AttemptList {
    /// The consumer.
    pub consumer: String,
    /// Consumed at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Consumed before this time.
    pub to: Option<OffsetDateTime>,
    /// Page size: 1 to [`limits::PAGE_EVENTS`].
    pub limit: u32,
    /// Where the last page ended: the place of its last attempt.
    pub after: Option<AttemptPlace>,
}

impl AttemptList {
    /// The first page of all attempts of a consumer.
    pub fn of(consumer: &str, limit: u32) -> Self {
        Self { consumer: consumer.into(), from: None, to: None, limit, after: None }
    }

    /// Validates the request.
    pub(crate) fn check(&self) -> Result<()> {
        limits::page(self.limit)
    }

    /// The attempts of the page are before this place.
    pub(crate) fn below(&self) -> AttemptPlace {
        let to = AttemptPlace { at: self.to.unwrap_or(END_OF_TIME), sequence: 0, attempt: 0 };
        self.after.map_or(to, |after| after.min(to))
    }
}

/// Later than every attempt, and a time that every database can store.
const END_OF_TIME: OffsetDateTime = time::macros::datetime!(9999-12-31 00:00 UTC);

/// An attempt of a consumer, and its event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerAttempt {
    /// The event.
    pub event_id: String,
    /// Its topic.
    pub topic: String,
    /// Its tenant.
    pub tenant_id: Option<String>,
    /// Where it is in the list.
    pub place: AttemptPlace,
    /// The attempt.
    pub consumption: Consumption,
}

/// The place of an attempt in the list of its consumer. Attempts that were written together have the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptPlace {
    pub(crate) at: OffsetDateTime,
    pub(crate) sequence: i64,
    pub(crate) attempt: u32,
}

impl fmt::Display for AttemptPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.at.unix_timestamp_nanos() / 1_000, self.sequence, self.attempt)
    }
}

impl FromStr for AttemptPlace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = |text: &str| {
            let (micros, rest) = text.split_once('.')?;
            let (sequence, attempt) = rest.split_once('.')?;
            let nanos = micros.parse::<i128>().ok()?.checked_mul(1_000)?;
            let at = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
            Some(Self { at, sequence: sequence.parse().ok()?, attempt: attempt.parse().ok()? })
        };
        parts(text).ok_or_else(|| Error::invalid("cursor", "must be a nextCursor of this list".into()))
    }
}
