//! How deliveries reach their consumers. A relay claims deliveries and passes them to a transport; the [`Outcome`] that
//! it returns decides whether they are settled, retried or given up. [`Inbox`](crate::Inbox) is the transport inside
//! this process, `rabbitmq` goes through a broker, `webhook` over HTTP.

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

pub use crate::entry::Outcome;
use crate::entry::{self, Decision};
use crate::envelope::Envelope;
use crate::error::Result;
use crate::limits;
use crate::retry::{RetryPolicy, chance};
use crate::store::{DeadHead, DeliveryId, History, Store, Token};
use crate::subscription::{EVERY_TOPIC, Via};

/// Carries the deliveries of its lanes.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// The lanes that it serves.
    fn lanes(&self) -> Vec<Lane>;

    /// The `via` of the consumers whose lanes it serves. A lane rests while its consumer has another one; `None`: it
    /// serves its lanes in any case.
    fn via(&self) -> Option<Via> {
        None
    }

    /// Called before the first claim: registers subscriptions, declares queues.
    async fn prepare(&self, store: &dyn Store) -> Result<()>;

    /// Delivers parcels of one lane and one claim, in order. Returns an outcome for each that it has taken, at least
    /// for the first; the others are offered again. It is offered up to [`Lane::at_once`] parcels. If that is 1, it
    /// is offered a few if the last ones were fast, no two of them of one key.
    async fn deliver(&self, lane: &Lane, parcels: &[Parcel]) -> Vec<Outcome>;
}

/// One lane, and how it is served.
#[derive(Debug, Clone)]
pub struct Lane {
    /// Its name: the consumer's, or the broker's.
    pub name: Arc<str>,
    /// The topics whose events wake it; empty for all.
    pub topics: Vec<String>,
    /// How many parcels one call of the transport takes.
    pub at_once: usize,
    /// Its options.
    pub options: LaneOptions,
}

impl Lane {
    /// What is written for an outcome of attempt number `attempt`.
    pub(crate) fn decide(&self, outcome: &Outcome, attempt: u32, envelope: &Envelope) -> Decision {
        let policy = match outcome {
            Outcome::Failed(failure) => self.options.policy(failure.cause().code.as_deref()),
            _ => &self.options.retry,
        };
        let max_attempts = self.options.max_attempts(envelope, policy);
        entry::after(outcome, attempt, max_attempts, policy, chance)
    }
}

/// The options of a lane.
#[derive(Debug, Clone)]
pub struct LaneOptions {
    /// When to try again, and how often.
    pub retry: RetryPolicy,
    /// Policies for failures with these codes, instead of `retry`.
    pub retry_by_code: BTreeMap<String, RetryPolicy>,
    /// How many calls of the transport run at the same time.
    pub concurrency: usize,
    /// How many deliveries one claim takes.
    pub batch: u32,
    /// How many bytes of payloads one claim takes, or a single delivery.
    pub claim_bytes: usize,
    /// How many bytes of payloads the lane holds, claimed and not finished: at least one claim.
    pub lane_bytes: usize,
    /// Maximum deliveries per second on this instance; `None` for no limit.
    pub per_second: Option<u32>,
    /// How long one try may take before it counts as failed.
    pub timeout: Duration,
    /// Whether every attempt is kept in the history.
    pub history: History,
    /// What happens to the later deliveries of a key while the first one is DEAD.
    pub dead_head: DeadHead,
    /// What the subscriptions of the lane's consumer say, by topic. The relay reads it while it works.
    #[doc(hidden)]
    pub by_topic: BTreeMap<String, TopicLimits>,
}

/// The limits of the deliveries of one topic, instead of those of the lane.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicLimits {
    /// How long one try may take.
    pub timeout: Option<Duration>,
    /// How often a delivery is tried, unless its event says so.
    pub max_attempts: Option<u32>,
}

impl Default for LaneOptions {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            retry_by_code: BTreeMap::new(),
            concurrency: 4,
            batch: 100,
            claim_bytes: limits::CLAIM_BYTES,
            lane_bytes: limits::LANE_BYTES,
            per_second: None,
            timeout: Duration::from_secs(60),
            history: History::Keep,
            dead_head: DeadHead::Hold,
            by_topic: BTreeMap::new(),
        }
    }
}

impl LaneOptions {
    /// The policy for a failure with this code.
    pub(crate) fn policy(&self, code: Option<&str>) -> &RetryPolicy {
        code.and_then(|code| self.retry_by_code.get(code)).unwrap_or(&self.retry)
    }

    /// The limits of a topic: of its subscription, and else of the one to every topic.
    pub(crate) fn of_topic(&self, topic: &str) -> TopicLimits {
        // Nearly no lane has any.
        if self.by_topic.is_empty() {
            return TopicLimits::default();
        }
        let of = |topic: &str| self.by_topic.get(topic).copied().unwrap_or_default();
        let (this, every) = (of(topic), of(EVERY_TOPIC));
        let (timeout, max_attempts) = (this.timeout.or(every.timeout), this.max_attempts.or(every.max_attempts));
        TopicLimits { timeout, max_attempts }
    }

    /// How long a try of an event of this topic may take.
    pub(crate) fn timeout_of(&self, topic: &str) -> Duration {
        self.of_topic(topic).timeout.unwrap_or(self.timeout)
    }

    /// How often an event is tried under this policy.
    pub(crate) fn max_attempts(&self, envelope: &Envelope, policy: &RetryPolicy) -> u32 {
        let asked = envelope.max_attempts.or_else(|| self.of_topic(&envelope.topic).max_attempts);
        asked.unwrap_or(policy.max_attempts)
    }
}

/// A claimed delivery on its way to its consumer.
#[derive(Debug)]
pub struct Parcel {
    /// The delivery.
    pub id: DeliveryId,
    /// The consumer behind a broker lane that it is for; `None` for all of them.
    pub target: Option<String>,
    /// The attempt number; the first is 1.
    pub attempt: u32,
    /// The event.
    pub envelope: Arc<Envelope>,
    /// The claim that it belongs to.
    pub lease: Arc<HeldLease>,
}

/// The lease of a claim as its holder knows it. Another claim cannot take the deliveries before it has run out.
#[derive(Debug)]
pub struct HeldLease {
    /// Proves the claim.
    pub token: Token,
    origin: Instant,
    /// Milliseconds after `origin`.
    until: AtomicU64,
    lost: AtomicBool,
}

impl HeldLease {
    /// A lease of `length` that was asked for at `asked`. The database began to count no earlier than that.
    pub(crate) fn new(token: Token, asked: Instant, length: Duration) -> Self {
        Self { token, origin: asked, until: AtomicU64::new(millis(length)), lost: AtomicBool::new(false) }
    }

    pub(crate) fn extend(&self, asked: Instant, length: Duration) {
        self.until.store(millis(asked.duration_since(self.origin) + length), Ordering::Relaxed);
    }

    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// How long it certainly lasts.
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
