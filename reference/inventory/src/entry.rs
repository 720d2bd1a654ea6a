//! The state machine of a key, as pure functions: what a request may do, and what each shard has to do.
//!
//! ```text
//! (none) ──begin──▶ PROCESSING ──▶ SUCCESS ──┐
//!    │                 ▲   └─────▶ FAILED ───┤ release
//!    │                 └──retry──────┘       ▼
//!    └──────────────release──────────────▶ RELEASED
//! ```
//!
//! Every begin and every retry is an *attempt* with the next number. The number is its token: it guards the attempt's
//! writes to the log and identifies its reservations.

use std::fmt;

use crate::Error;

/// The status of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// In progress until the lease expires.
    Processing,
    /// Deducted in every shard. Valid from this status on, even if a shard is not updated yet.
    Success,
    /// Deducted in no shard; may be retried.
    Failed,
    /// Returned, or blocked before a deduction. Final.
    Released,
}

impl Status {
    /// The stored text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "PROCESSING",
            Self::Success => "SUCCESS",
            Self::Failed => "FAILED",
            Self::Released => "RELEASED",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        [Self::Processing, Self::Success, Self::Failed, Self::Released]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| Error::Corrupt(format!("the log contains the unknown status {text:?}")))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The row of a key in the log.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its status.
    pub status: Status,
    /// The latest attempt.
    pub attempt: i64,
    /// The fingerprint of the request. `None` if the key was released before any request.
    pub fingerprint: Option<Vec<u8>>,
    /// The products of the request.
    pub product_ids: Vec<String>,
    /// Whether the lease of the attempt has expired.
    pub lease_is_over: bool,
}

/// What a request may do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The key is unused.
    Begin,
    /// Take over from this attempt.
    Retry { after: i64 },
    /// The deduction is done.
    Replay,
}

/// Decides what a deduction may do. A mismatch has precedence over every status, also over `InProgress`.
pub(crate) fn open(entry: Option<&Entry>, fingerprint: &[u8]) -> Result<Opening, Error> {
    let Some(entry) = entry else {
        return Ok(Opening::Begin);
    };
    if entry.fingerprint.as_deref().is_some_and(|known| known != fingerprint) {
        return Err(Error::Mismatch);
    }
    match entry.status {
        Status::Success => Ok(Opening::Replay),
        Status::Released => Err(Error::Released),
        Status::Failed => Ok(Opening::Retry { after: entry.attempt }),
        Status::Processing if entry.lease_is_over => Ok(Opening::Retry { after: entry.attempt }),
        Status::Processing => Err(Error::InProgress),
    }
}

/// What to do with a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing: its attempt is in progress, or it is already settled.
    Keep,
    /// Mark as sold.
    Deduct,
    /// Return to stock.
    GiveBack,
}

/// Decides by the log about a reservation of `attempt`. An older attempt can never succeed. A newer one began after the
/// log was read and is left alone.
pub(crate) fn fate(entry: &Entry, attempt: i64, is_deducted: bool) -> Fate {
    let is_latest = attempt == entry.attempt;
    match entry.status {
        _ if attempt > entry.attempt => Fate::Keep,
        _ if !is_latest => Fate::GiveBack,
        Status::Processing => Fate::Keep,
        Status::Success if is_deducted => Fate::Keep,
        Status::Success => Fate::Deduct,
        Status::Failed | Status::Released => Fate::GiveBack,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(status: Status, lease_is_over: bool) -> Entry {
        Entry { status, attempt: 2, fingerprint: Some(vec![1]), product_ids: Vec::new(), lease_is_over }
    }

    /// C.2, C.5
    #[test]
    fn a_request_finds_what_the_key_allows() {
        assert_eq!(open(None, &[1]).expect("free"), Opening::Begin);
        assert_eq!(open(Some(&entry(Status::Success, true)), &[1]).expect("done"), Opening::Replay);
        assert_eq!(open(Some(&entry(Status::Failed, false)), &[1]).expect("free"), Opening::Retry { after: 2 });
        assert_eq!(open(Some(&entry(Status::Processing, true)), &[1]).expect("free"), Opening::Retry { after: 2 });
        assert!(matches!(open(Some(&entry(Status::Processing, false)), &[1]), Err(Error::InProgress)));
        assert!(matches!(open(Some(&entry(Status::Released, true)), &[1]), Err(Error::Released)));
        let blocked = Entry { fingerprint: None, ..entry(Status::Released, true) };
        assert!(matches!(open(Some(&blocked), &[1]), Err(Error::Released)));
    }

    /// F25
    #[test]
    fn another_request_is_refused_whatever_the_status() {
        for status in [Status::Processing, Status::Success, Status::Failed, Status::Released] {
            assert!(matches!(open(Some(&entry(status, false)), &[2]), Err(Error::Mismatch)), "{status}");
        }
    }

    /// F24
    #[test]
    fn older_attempts_are_given_back_and_newer_ones_left_alone() {
        for status in [Status::Processing, Status::Success, Status::Failed, Status::Released] {
            let entry = entry(status, false);
            assert_eq!(fate(&entry, 1, false), Fate::GiveBack, "{status}");
            assert_eq!(fate(&entry, 3, false), Fate::Keep, "{status}");
        }
        assert_eq!(fate(&entry(Status::Processing, true), 2, false), Fate::Keep);
        assert_eq!(fate(&entry(Status::Success, false), 2, false), Fate::Deduct);
        assert_eq!(fate(&entry(Status::Success, false), 2, true), Fate::Keep);
        assert_eq!(fate(&entry(Status::Failed, false), 2, false), Fate::GiveBack);
        assert_eq!(fate(&entry(Status::Released, false), 2, true), Fate::GiveBack);
    }
}
