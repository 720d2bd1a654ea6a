//! How deliveries get to where they have their effect. A relay claims them and hands them to a transport; what it
//! answers decides whether they are settled, retried or given up. [`Inbox`](crate::Inbox) is the transport inside
//! this process, `rabbitmq` the one through a broker, `webhook` the one over HTTP.

#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "webhook")]
pub mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::consumer::Failure;
use crate::entry::{self, Decision, Outcome};
use crate::envelope::Envelope;
use crate::error::Result;
use crate::retry::{RetryPolicy, chance};
use crate::store::{DeliveryId, History, Store, Token};

/// Carries the deliveries of its lanes.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// The lanes that it serves.
    fn lanes(&self) -> Vec<Lane>;

    /// Called before the first claim: subscriptions are registered, queues declared.
    async fn prepare(&self, store: &dyn Store) -> Result<()>;

    /// Delivers parcels of one lane and one claim, in order. An answer for each that it has taken, the first at least; it is
    /// asked again for the others. It is offered up to [`Lane::at_once`]; where that is 1, a few if they are likely to be
    /// done in no time, no two of them of one key.
    async fn deliver(&self, lane: &Lane, parcels: &[Parcel]) -> Vec<Delivered>;
}

/// One lane, and how it wants to be served.
#[derive(Debug, Clone)]
pub struct Lane {
    /// Its name: the consumer's, or the broker's.
    pub name: Arc<str>,
    /// The topics it hears, so that a new event wakes it; empty for all.
    pub topics: Vec<String>,
    /// How many parcels go together.
    pub at_once: usize,
    /// What the user may choose.
    pub options: LaneOptions,
}

impl Lane {
    /// What follows from a failure of attempt number `attempt`.
    pub(crate) fn after(&self, failure: &Failure, attempt: u32, envelope: &Envelope) -> Decision {
        let policy = self.options.policy(failure.cause().code.as_deref());
        let outcome = match failure {
            Failure::Retry(_) => Outcome::Failed,
            Failure::RetryAfter(wait, _) => Outcome::FailedFor(*wait),
            Failure::Reject(_) => Outcome::Rejected,
        };
        let max_attempts = envelope.max_attempts.unwrap_or(policy.max_attempts);
        entry::after(&outcome, attempt, max_attempts, policy, chance())
    }
}

/// What a user may choose for each lane.
#[derive(Debug, Clone)]
pub struct LaneOptions {
    /// When to try again, and how often.
    pub retry: RetryPolicy,
    /// Other policies for failures with these codes.
    pub retry_by_code: BTreeMap<String, RetryPolicy>,
    /// How many calls of the transport run at the same time.
    pub concurrency: usize,
    /// How many deliveries one claim takes.
    pub batch: u32,
    /// How many deliveries a second at most, on this instance; None: as many as there are.
    pub per_second: Option<u32>,
    /// How long one try may take before it counts as failed.
    pub timeout: Duration,
    /// Whether every attempt is kept.
    pub history: History,
}

impl Default for LaneOptions {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            retry_by_code: BTreeMap::new(),
            concurrency: 4,
            batch: 100,
            per_second: None,
            timeout: Duration::from_secs(60),
            history: History::Keep,
        }
    }
}

impl LaneOptions {
    /// The policy for a failure with this code.
    pub(crate) fn policy(&self, code: Option<&str>) -> &RetryPolicy {
        code.and_then(|code| self.retry_by_code.get(code)).unwrap_or(&self.retry)
    }
}

/// A claimed delivery on its way.
#[derive(Debug)]
pub struct Parcel {
    /// The delivery.
    pub id: DeliveryId,
    /// For one consumer of a broker lane, or empty.
    pub target: String,
    /// Which attempt this is; the first is 1.
    pub attempt: u32,
    /// The event.
    pub envelope: Arc<Envelope>,
    /// The claim that it belongs to.
    pub lease: Arc<HeldLease>,
}

/// What became of a parcel.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivered {
    /// The effect happened, and the delivery went with it in one transaction: nothing is left to do.
    Completed,
    /// The effect happened; the relay settles.
    Done,
    /// The effect had happened before; now the delivery is gone too.
    Duplicate,
    /// It failed.
    Failed(Failure),
    /// Nothing was tried: it goes back as it was, and the attempt does not count.
    NotTried,
    /// The lease was gone before the effect could be committed, so there was none. Whoever holds it now decides.
    LeaseLost,
}

/// A claim's lease as its holder knows it: it may have ended earlier, never later.
#[derive(Debug)]
pub struct HeldLease {
    /// What proves the claim.
    pub token: Token,
    origin: Instant,
    /// Milliseconds after `origin`.
    until: AtomicU64,
    lost: AtomicBool,
}

impl HeldLease {
    /// A lease of `length` that was asked for at `asked`: the database began to count no earlier than that.
    pub fn new(token: Token, asked: Instant, length: Duration) -> Self {
        Self { token, origin: asked, until: AtomicU64::new(millis(length)), lost: AtomicBool::new(false) }
    }

    pub(crate) fn extend(&self, asked: Instant, length: Duration) {
        self.until.store(millis(asked.duration_since(self.origin) + length), Ordering::Relaxed);
    }

    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// How long it surely holds.
    pub fn remaining(&self) -> Duration {
        if self.lost.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let until = self.origin + Duration::from_millis(self.until.load(Ordering::Relaxed));
        until.saturating_duration_since(Instant::now())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
