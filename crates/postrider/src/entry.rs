//! The life of a delivery, as pure functions: which step leads from which state to which, and what to do with
//! a delivery once it was tried. Stores carry the steps out; the relay asks what to do.
//!
//! ```text
//!            claim                settle
//!   NEW ──────────────▶ PROCESSING ──────▶ (row gone)
//!    ▲ ▲    claim      ▲ │  │  │ expire
//!    │ └── release ────┼─┘  │  └────────▶ (row gone)
//!    │                 │    ├─ retry ──▶ FAILED ── claim ──▶ PROCESSING
//!    │                 │    └─ bury ───▶ DEAD
//!    └──── redrive ────┴──── from NEW, FAILED, DEAD
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::retry::RetryPolicy;

/// Where a delivery stands. It is read off the row: dead, leased, tried before, or none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum DeliveryStatus {
    /// Never tried, or given back before it was.
    New,
    /// Claimed; also after its lease ran out, until someone claims it again.
    Processing,
    /// Tried without success, due again later.
    Failed,
    /// Given up: only a redrive brings it back.
    Dead,
}

impl DeliveryStatus {
    /// Reads it off a row.
    pub fn of(dead: bool, leased: bool, attempts: u32) -> Self {
        match () {
            () if dead => Self::Dead,
            () if leased => Self::Processing,
            () if attempts > 0 => Self::Failed,
            () => Self::New,
        }
    }

    /// The word for it everywhere: SQL views, API, console.
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

/// What can happen to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Taken by a worker under a lease; counts an attempt.
    Claim,
    /// The effect happened: the row goes.
    Settle,
    /// It failed and is due again later.
    Retry,
    /// It failed for the last time.
    Bury,
    /// Given back untried; the attempt does not count.
    Release,
    /// Made due now by a person. One whose lease ran out is released first.
    Redrive,
    /// Past its expiry: the row goes.
    Expire,
}

/// A step that the state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a delivery that is {} cannot {step:?}", from.as_str())]
pub struct Illegal {
    /// Where it stood.
    pub from: DeliveryStatus,
    /// What was asked.
    pub step: Step,
}

/// Takes a delivery from one state to the next. `attempts` is its count before the step; None = the row is gone.
pub fn step(from: DeliveryStatus, step: Step, attempts: u32) -> Result<Option<DeliveryStatus>, Illegal> {
    use DeliveryStatus::{Dead, Failed, New, Processing};
    match (from, step) {
        // PROCESSING too: an expired lease is claimed straight away by the next worker.
        (New | Failed | Processing, Step::Claim) => Ok(Some(Processing)),
        (Processing, Step::Settle) => Ok(None),
        (Processing, Step::Retry) => Ok(Some(Failed)),
        (Processing, Step::Bury) => Ok(Some(Dead)),
        // The claim counted one attempt; what was tried before that is still FAILED.
        (Processing, Step::Release) => Ok(Some(if attempts > 1 { Failed } else { New })),
        (New | Failed | Dead, Step::Redrive) => Ok(Some(New)),
        (_, Step::Expire) => Ok(None),
        (from, step) => Err(Illegal { from, step }),
    }
}

/// How a try ended, or why there was none.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The effect happened.
    Succeeded,
    /// It failed; another try may succeed.
    Failed,
    /// It failed; another try may succeed after this long.
    FailedFor(Duration),
    /// It can never succeed.
    Rejected,
    /// Shutdown came before it was tried.
    NotTried,
}

/// What to do with a claimed delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The row goes.
    Settle,
    /// Due again after this long.
    Retry(Duration),
    /// No more tries.
    Bury,
    /// Back as it was.
    Release,
}

/// What may be done with a delivery that was just claimed; `attempt` counts this claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Hand it to its consumer.
    Deliver,
    /// It is past its expiry.
    Expire,
    /// Its attempts were used up by workers that died: burying it is all that is left.
    Exhausted,
}

/// Decides before the try. An event that is past its expiry is never delivered.
pub fn before(attempt: u32, max_attempts: u32, expired: bool) -> Verdict {
    match () {
        () if expired => Verdict::Expire,
        () if attempt > max_attempts => Verdict::Exhausted,
        () => Verdict::Deliver,
    }
}

/// Decides after the try. `chance` is a uniform number in [0, 1) for the jitter.
pub fn after(outcome: &Outcome, attempt: u32, max_attempts: u32, policy: &RetryPolicy, chance: f64) -> Decision {
    match outcome {
        Outcome::Succeeded => Decision::Settle,
        Outcome::NotTried => Decision::Release,
        Outcome::Rejected => Decision::Bury,
        Outcome::Failed | Outcome::FailedFor(_) if attempt >= max_attempts => Decision::Bury,
        Outcome::FailedFor(wait) => Decision::Retry(*wait),
        Outcome::Failed => Decision::Retry(policy.delay(attempt, chance)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_step() -> impl Strategy<Value = Step> {
        prop::sample::select(vec![
            Step::Claim,
            Step::Settle,
            Step::Retry,
            Step::Bury,
            Step::Release,
            Step::Redrive,
            Step::Expire,
        ])
    }

    proptest! {
        /// Whatever happens in whatever order: only claimed work is settled, retried, buried or released, DEAD is
        /// left by a redrive or by expiry alone, and what is gone stays gone.
        #[test]
        fn only_claimed_work_is_written(steps in prop::collection::vec(any_step(), 0..50)) {
            let (mut status, mut attempts) = (DeliveryStatus::New, 0_u32);
            for taken in steps {
                let claimed = status == DeliveryStatus::Processing;
                match step(status, taken, attempts) {
                    Ok(next) => {
                        let guarded = matches!(taken, Step::Settle | Step::Retry | Step::Bury | Step::Release);
                        prop_assert!(!guarded || claimed, "{taken:?} of unclaimed work");
                        prop_assert!(status != DeliveryStatus::Dead || matches!(taken, Step::Redrive | Step::Expire));
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
                if before(attempt, max, false) != Verdict::Deliver {
                    break;
                }
                tries += 1;
                if !died && after(&Outcome::Failed, attempt, max, &policy, 0.5) == Decision::Bury {
                    break;
                }
            }
            prop_assert!(tries <= max);
        }
    }

    #[test]
    fn the_last_failure_buries_and_a_rejection_does_at_once() {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        let after = |outcome, attempt| after(&outcome, attempt, 10, &policy, 0.5);
        assert_eq!(after(Outcome::Failed, 9), Decision::Retry(Duration::from_secs(512)));
        assert_eq!(after(Outcome::Failed, 10), Decision::Bury);
        assert_eq!(after(Outcome::Rejected, 1), Decision::Bury);
        assert_eq!(after(Outcome::FailedFor(Duration::from_secs(7)), 1), Decision::Retry(Duration::from_secs(7)));
        assert_eq!(after(Outcome::NotTried, 10), Decision::Release);
    }

    /// D.9
    #[test]
    fn an_expired_event_is_never_delivered() {
        assert_eq!(before(1, 10, true), Verdict::Expire);
        assert_eq!(before(11, 10, true), Verdict::Expire);
        assert_eq!(before(11, 10, false), Verdict::Exhausted);
    }
}
