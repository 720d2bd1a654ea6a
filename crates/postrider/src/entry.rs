//! The life of a delivery as pure functions: which step leads from which state to which, how a try can end
//! ([`Outcome`]), and what is then written to the row ([`Decision`]). Stores carry the steps out; the relay decides.
//!
//! ```text
//!            claim                settle
//!   NEW ──────────────▶ PROCESSING ──────▶ (row gone)
//!    ▲ ▲    claim      ▲ │  │  │ expire
//!    │ └── release ────┼─┘  │  └────────▶ (row gone)
//!    │                 │    ├─ retry ──▶ FAILED ── claim ──▶ PROCESSING
//!    │                 │    └─ bury ───▶ DEAD
//!    └──── redrive ────┴──── from NEW, FAILED, DEAD
//!
//!   from any state: discard ──▶ (row gone)
//! ```

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::consumer::Failure;
use crate::retry::RetryPolicy;

/// The code of the attempt that records a discard: [`Redrives::discard`](crate::store::Redrives::discard).
pub const DISCARDED: &str = "discarded";

/// Error text and code of an attempt that left no trace: [`Upkeep::append_lost`](crate::store::Upkeep::append_lost).
pub const LEASE_RAN_OUT: (&str, &str) =
    ("the lease ran out: its worker died, or wrote no result in time", "leaseRanOut");

/// The state of a delivery. It is computed from the row: dead, leased, tried before, or none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum DeliveryStatus {
    /// Never attempted, or released before the first attempt.
    New,
    /// Claimed; also after its lease ran out, until the next claim.
    Processing,
    /// Attempted without success, due again later.
    Failed,
    /// Dead: only a redrive makes it due again.
    Dead,
}

impl DeliveryStatus {
    /// Computes it from the columns of a row.
    pub fn of(dead: bool, leased: bool, attempts: u32) -> Self {
        if dead {
            Self::Dead
        } else if leased {
            Self::Processing
        } else if attempts > 0 {
            Self::Failed
        } else {
            Self::New
        }
    }

    /// Its name in SQL views, the API and the console.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Processing => "PROCESSING",
            Self::Failed => "FAILED",
            Self::Dead => "DEAD",
        }
    }
}

impl std::str::FromStr for DeliveryStatus {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> crate::error::Result<Self> {
        [Self::New, Self::Processing, Self::Failed, Self::Dead]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| {
                let message = format!("must be NEW, PROCESSING, FAILED or DEAD, is {text:?}");
                crate::error::Error::invalid("deliveryStatus", message)
            })
    }
}

/// A change of a delivery's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A worker takes it under a lease; the attempt is counted.
    Claim,
    /// The effect happened: the row is deleted.
    Settle,
    /// It failed and is due again later.
    Retry,
    /// It failed for the last time.
    Bury,
    /// Returned untried; the attempt does not count.
    Release,
    /// An operator makes it due now. One whose lease ran out is released first.
    Redrive,
    /// Past its expiry: the row is deleted.
    Expire,
    /// An operator ends it with a reason: the row is deleted.
    Discard,
}

/// A step that the state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a delivery that is {} cannot {step:?}", from.as_str())]
pub struct Illegal {
    /// The state before.
    pub from: DeliveryStatus,
    /// The step that was asked for.
    pub step: Step,
}

/// Takes a delivery from one state to the next. `attempts` is its count before the step. Returns `None` if the row is
/// deleted.
pub fn step(from: DeliveryStatus, step: Step, attempts: u32) -> Result<Option<DeliveryStatus>, Illegal> {
    use DeliveryStatus::{Dead, Failed, New, Processing};
    match (from, step) {
        // PROCESSING too: the next worker claims an expired lease directly.
        (New | Failed | Processing, Step::Claim) => Ok(Some(Processing)),
        (Processing, Step::Settle) => Ok(None),
        (Processing, Step::Retry) => Ok(Some(Failed)),
        (Processing, Step::Bury) => Ok(Some(Dead)),
        // The claim counted one attempt; a delivery that was tried before that claim is FAILED again.
        (Processing, Step::Release) => Ok(Some(if attempts > 1 { Failed } else { New })),
        (New | Failed | Dead, Step::Redrive) => Ok(Some(New)),
        (_, Step::Expire | Step::Discard) => Ok(None),
        (from, step) => Err(Illegal { from, step }),
    }
}

/// How an attempt at a delivery ended, or why there was none. Used from the transport to the written row.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The effect happened, and the delivery was deleted in the same transaction.
    Completed,
    /// The effect happened; the relay settles the delivery.
    Done,
    /// The effect had happened before; the delivery was deleted now.
    Duplicate,
    /// The try failed.
    Failed(Failure),
    /// There was no try: the delivery is released, and the attempt does not count.
    NotTried,
    /// The lease was lost before the effect was committed, so the effect was rolled back. The new holder decides.
    LeaseLost,
    /// There was no try, because the event is past its expiry. Only the relay uses it.
    Expired,
    /// There was no try, because workers that died have used up all attempts. Only the relay uses it.
    Exhausted,
    /// There was no try, because an earlier delivery of the same key failed. The store releases it together with that one.
    Behind,
}

impl Outcome {
    /// Whether the effect has happened, now or before.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Completed | Self::Done | Self::Duplicate)
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What is written to the row of a claimed delivery.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// The row is deleted and the success is kept.
    Settle,
    /// The row is deleted without an attempt in the history.
    Expire,
    /// The row is due again after this long.
    Retry(Duration),
    /// The row is DEAD.
    Bury,
    /// The row is as it was before the claim.
    Release,
    /// Nothing: the row is deleted, belongs to another claim, or is released with an earlier one of its key.
    Nothing,
}

/// Decides before the attempt. Returns `None` if it may be delivered. `attempt` counts this claim. An event past its
/// expiry is never delivered.
pub fn before(attempt: u32, max_attempts: u32, expired: bool) -> Option<Outcome> {
    if expired {
        Some(Outcome::Expired)
    } else if attempt > max_attempts {
        Some(Outcome::Exhausted)
    } else {
        None
    }
}

/// Decides after the try. `chance` gives a uniform number in [0, 1) for the jitter; it is only called for a retry.
pub fn after(
    outcome: &Outcome,
    attempt: u32,
    max_attempts: u32,
    policy: &RetryPolicy,
    chance: impl FnOnce() -> f64,
) -> Decision {
    match outcome {
        Outcome::Done => Decision::Settle,
        Outcome::Completed | Outcome::Duplicate | Outcome::LeaseLost | Outcome::Behind => Decision::Nothing,
        Outcome::NotTried => Decision::Release,
        Outcome::Expired => Decision::Expire,
        Outcome::Exhausted | Outcome::Failed(Failure::Reject(_)) => Decision::Bury,
        Outcome::Failed(_) if attempt >= max_attempts => Decision::Bury,
        // A wait that is asked for lengthens the backoff up to its cap, and never shortens it: a receiver that asks for
        // none would use up all attempts in a second.
        Outcome::Failed(Failure::RetryAfter(wait, _)) => {
            Decision::Retry(policy.delay(attempt, chance()).max((*wait).min(policy.cap)))
        }
        Outcome::Failed(Failure::Retry(_)) => Decision::Retry(policy.delay(attempt, chance())),
    }
}

/// The rule that keeps a key in order: after a delivery without success, nothing more of its key is tried.
///
/// It covers deliveries that are tried one after the other under one claim. The store keeps the order between claims.
#[derive(Debug, Default)]
pub struct StoppedKeys {
    /// The keys that have stopped, and whether a failure stopped them. A failure releases the rest of its key when it is
    /// written; in all other cases the rest has to be released by itself.
    by_failure: HashMap<String, bool>,
}

impl StoppedKeys {
    /// The outcome of a delivery of this key without an attempt. Returns `None` if it may be attempted.
    pub fn instead_of_try(&self, key: Option<&str>) -> Option<Outcome> {
        let by_failure = self.by_failure.get(key?)?;
        Some(if *by_failure { Outcome::Behind } else { Outcome::NotTried })
    }

    /// Records how a delivery ended, and returns the outcome that counts: a delivery that was not tried is
    /// [`Outcome::Behind`] exactly where an earlier one of its key failed.
    pub fn record(&mut self, key: Option<&str>, outcome: Outcome) -> Outcome {
        let outcome = match outcome {
            Outcome::NotTried | Outcome::Behind => self.instead_of_try(key).unwrap_or(Outcome::NotTried),
            outcome => outcome,
        };
        if let Some(key) = key
            && !outcome.is_success()
            && !self.by_failure.contains_key(key)
        {
            let failed = matches!(outcome, Outcome::Failed(_) | Outcome::Exhausted);
            self.by_failure.insert(key.to_owned(), failed);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn failed() -> Outcome {
        Failure::retry("no stock").into()
    }

    fn any_outcome() -> impl Strategy<Value = Outcome> {
        prop::sample::select(vec![
            Outcome::Completed,
            Outcome::Done,
            Outcome::Duplicate,
            failed(),
            Outcome::NotTried,
            Outcome::LeaseLost,
            Outcome::Expired,
            Outcome::Exhausted,
            Outcome::Behind,
        ])
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop::sample::select(vec![
            Step::Claim,
            Step::Settle,
            Step::Retry,
            Step::Bury,
            Step::Release,
            Step::Redrive,
            Step::Expire,
            Step::Discard,
        ])
    }

    proptest! {
        /// In any order of steps: only claimed work is settled, retried, buried or released, only a redrive, the expiry
        /// or a discard ends DEAD, and a deleted row stays deleted.
        #[test]
        fn only_claimed_work_is_written(steps in prop::collection::vec(any_step(), 0..50)) {
            let (mut status, mut attempts) = (DeliveryStatus::New, 0_u32);
            for taken in steps {
                let claimed = status == DeliveryStatus::Processing;
                match step(status, taken, attempts) {
                    Ok(next) => {
                        let guarded = matches!(taken, Step::Settle | Step::Retry | Step::Bury | Step::Release);
                        prop_assert!(!guarded || claimed, "{taken:?} of unclaimed work");
                        prop_assert!(status != DeliveryStatus::Dead || matches!(taken, Step::Redrive | Step::Expire | Step::Discard));
                        match taken {
                            Step::Claim => attempts += 1,
                            Step::Release => attempts -= 1,
                            Step::Redrive => attempts = 0,
                            _ => {}
                        }
                        match next {
                            Some(next) => status = next,
                            None => break,
                        }
                        prop_assert!(status != DeliveryStatus::New || attempts == 0, "NEW was never tried");
                    }
                    Err(illegal) => prop_assert_eq!(illegal, Illegal { from: status, step: taken }),
                }
            }
        }

        /// A.5, F03: attempts end after the maximum, whether tries fail or workers die during them.
        #[test]
        fn no_delivery_is_tried_more_often_than_its_maximum(max in 1_u32..20, died in prop::collection::vec(any::<bool>(), 0..60)) {
            let policy = RetryPolicy::default();
            let mut tries = 0;
            for (attempt, died) in (1_u32..).zip(died) {
                if before(attempt, max, false).is_some() {
                    break;
                }
                tries += 1;
                if !died && after(&failed(), attempt, max, &policy, || 0.5) == Decision::Bury {
                    break;
                }
            }
            prop_assert!(tries <= max);
        }

        /// Of one key nothing succeeds after the first without success, and what is not tried is released exactly once:
        /// by the failure in front of it, or by itself.
        #[test]
        fn nothing_of_a_key_is_tried_after_one_without_success(
            tries in prop::collection::vec((prop::sample::select(vec![None, Some("a"), Some("b")]), any_outcome()), 0..30),
        ) {
            let mut keys = StoppedKeys::default();
            let mut first: HashMap<&str, Outcome> = HashMap::new();
            for (key, outcome) in tries {
                let instead = keys.instead_of_try(key);
                prop_assert_eq!(instead.is_some(), key.is_some_and(|key| first.contains_key(key)));
                let counts = keys.record(key, instead.clone().unwrap_or(outcome));
                if let Some(stopped_by) = key.and_then(|key| first.get(key)) {
                    let failed = matches!(stopped_by, Outcome::Failed(_) | Outcome::Exhausted);
                    prop_assert_eq!(&counts, if failed { &Outcome::Behind } else { &Outcome::NotTried });
                } else {
                    prop_assert!(counts != Outcome::Behind, "there is no failure in front of it");
                    if let Some(key) = key.filter(|_| !counts.is_success()) {
                        first.insert(key, counts);
                    }
                }
            }
        }
    }

    #[test]
    fn the_last_failure_buries_and_a_rejection_does_at_once() {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        let after = |outcome, attempt| after(&outcome, attempt, 10, &policy, || 0.5);
        let later = Failure::retry_after(Duration::from_secs(7), "busy");
        assert_eq!(after(failed(), 9), Decision::Retry(Duration::from_secs(512)));
        assert_eq!(after(failed(), 10), Decision::Bury);
        assert_eq!(after(Failure::reject("no such order").into(), 1), Decision::Bury);
        assert_eq!(after(later.clone().into(), 1), Decision::Retry(Duration::from_secs(7)));
        assert_eq!(after(later.into(), 10), Decision::Bury);
        // F62: no sooner than the backoff, no later than its cap.
        let asks_for =
            |seconds, attempt| after(Failure::retry_after(Duration::from_secs(seconds), "busy").into(), attempt);
        assert_eq!(asks_for(0, 1), Decision::Retry(Duration::from_secs(2)));
        assert_eq!(asks_for(1, 9), Decision::Retry(Duration::from_secs(512)));
        assert_eq!(asks_for(365 * 86_400, 1), Decision::Retry(policy.cap));
        assert_eq!(after(Outcome::NotTried, 10), Decision::Release);
        assert_eq!(after(Outcome::Done, 11), Decision::Settle);
        for gone in [Outcome::Completed, Outcome::Duplicate, Outcome::LeaseLost, Outcome::Behind] {
            assert_eq!(after(gone, 1), Decision::Nothing);
        }
    }

    /// D.9
    #[test]
    fn an_expired_event_is_never_delivered() {
        assert_eq!(before(1, 10, true), Some(Outcome::Expired));
        assert_eq!(before(11, 10, true), Some(Outcome::Expired));
        assert_eq!(before(11, 10, false), Some(Outcome::Exhausted));
        assert_eq!(before(10, 10, false), None);
    }
}
