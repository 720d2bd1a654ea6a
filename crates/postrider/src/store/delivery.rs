//! Deliveries: claim, outcome and state.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::entry::DeliveryStatus;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::limits;
use crate::shard::Shards;
use crate::subscription::RABBITMQ;

/// The work of lanes: claimed under a lease, then settled, retried, buried or released. Every write is guarded by the
/// token of the claim.
#[async_trait]
pub trait Deliveries: Send + Sync {
    /// Leases up to `limit` due deliveries without a key, oldest first. Each counts an attempt. Never waits for another
    /// claimer, and returns only what this claim has leased.
    async fn claim(&self, claim: &Claim) -> Result<Lease>;

    /// Leases up to `limit` due deliveries with a key, as runs: of each key a gapless stretch from its first delivery on, so
    /// that no other claimer can hold a later one at the same time. An earlier delivery that is not due, not free or (with
    /// [`DeadHead::Hold`]) dead keeps the rest of its key waiting.
    async fn claim_keyed(&self, claim: &Claim, dead_head: DeadHead) -> Result<Lease>;

    /// Extends the lease to `lease` from now. Returns the deliveries that the caller still holds.
    async fn extend(&self, token: Token, deliveries: &[DeliveryId], lease: Duration) -> Result<Vec<DeliveryId>>;

    /// Removes what is done. Returns the deliveries that the caller held and that, if they have a key, were the first of it;
    /// the others are untouched. A token that no later claim has replaced counts even after its lease ran out.
    async fn settle(&self, token: Token, deliveries: &[DeliveryId], history: History) -> Result<Vec<DeliveryId>>;

    /// Makes failed deliveries due again later and releases the rest of their runs. Returns those that the caller held.
    async fn retry(&self, token: Token, failed: &[Failed], history: History) -> Result<Vec<DeliveryId>>;

    /// Gives deliveries up and releases the rest of their runs. Returns those that the caller held. A last attempt is appended
    /// even if this claim was no try: it records that no further try will come.
    async fn bury(&self, token: Token, buried: &[Buried], history: History) -> Result<Vec<DeliveryId>>;

    /// Gives deliveries back as they were: the attempt does not count. Returns those that the caller held.
    async fn release(&self, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>>;
}

/// Proof of a claim. Drawn at random from 2^63 for each claim and never derived from anything that is counted,
/// reset or reused, so that an old one matches nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub i64);

impl Token {
    /// A random token. No claim has had it before.
    pub fn fresh() -> Self {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        // The fixed version bits are in the high half and the variant bits lead the low one: the mix has neither.
        Self(i64::from_ne_bytes((high.rotate_left(32) ^ low).to_ne_bytes()) & i64::MAX)
    }
}

/// A delivery: its event's place in the order of events, and a number that is never given again.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryId {
    /// The event's sequence.
    pub sequence: i64,
    /// The delivery's own number.
    pub number: i64,
    hint: Option<NonZeroU64>,
}

impl DeliveryId {
    /// The delivery with this number, of the event with this sequence.
    pub fn new(sequence: i64, number: i64) -> Self {
        Self { sequence, number, hint: None }
    }

    /// The same delivery with a hint that helps the claiming store to find the row faster. Only that store can read
    /// the hint, and the row may have moved since. The hint is not part of the delivery's identity.
    #[must_use]
    pub(crate) fn with_hint(self, hint: NonZeroU64) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The hint given to [`DeliveryId::with_hint`].
    pub(crate) fn hint(&self) -> Option<NonZeroU64> {
        self.hint
    }

    fn identity(&self) -> (i64, i64) {
        (self.sequence, self.number)
    }
}

impl PartialEq for DeliveryId {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for DeliveryId {}

impl Hash for DeliveryId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for DeliveryId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DeliveryId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

/// What to claim.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The lane.
    pub lane: String,
    /// The shards.
    pub shards: Shards,
    /// At most this many: 1 to [`limits::CLAIM_DELIVERIES`].
    pub limit: u32,
    /// At most this many bytes of payloads, or a single delivery. What does not fit is released as it was before.
    pub bytes: usize,
    /// How long the lease lasts.
    pub lease: Duration,
    /// The claimer's name with an incarnation, for people to read. Only the token proves ownership.
    pub owner: String,
}

impl Claim {
    /// A claim of every shard for 30 seconds.
    pub fn new(lane: impl Into<String>, limit: u32) -> Self {
        Self {
            lane: lane.into(),
            shards: Shards::ALL,
            limit,
            bytes: limits::CLAIM_BYTES,
            lease: Duration::from_secs(30),
            owner: "unnamed".into(),
        }
    }

    /// How many deliveries with payloads of these sizes fit, in this order: of a key always a gapless run.
    pub(super) fn fitting(&self, sizes: impl IntoIterator<Item = usize>) -> usize {
        let mut bytes = 0_usize;
        let fits = |size: &usize| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add((*size).max(1));
            is_first || bytes <= self.bytes
        };
        sizes.into_iter().take_while(fits).count()
    }

    /// The largest payload that is read together with those of so many other deliveries: all of them fit.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(super) fn small(&self, deliveries: usize) -> i64 {
        i64::try_from(self.bytes / deliveries.max(1)).unwrap_or(i64::MAX)
    }

    /// Validates the fields, so that stores do not have to.
    pub(crate) fn check(&self) -> Result<()> {
        if self.limit == 0 || self.limit > limits::CLAIM_DELIVERIES {
            return Err(Error::invalid(
                "limit",
                format!("must be 1 to {}, is {}", limits::CLAIM_DELIVERIES, self.limit),
            ));
        }
        if self.lease.is_zero() {
            return Err(Error::invalid("lease", "must be longer than nothing".into()));
        }
        limits::text("owner", &self.owner, limits::LABEL_CHARS)
    }
}

/// What happens to the rest of a key while its first delivery is DEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeadHead {
    /// It waits until a person has redriven or removed the dead delivery.
    #[default]
    Hold,
    /// It is delivered without the dead delivery.
    Skip,
}

/// The result of a claim: deliveries in the order of their events, under one token.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Guards every write of these deliveries.
    pub token: Token,
    /// In the order in which their events were written.
    pub deliveries: Vec<Claimed>,
}

impl Lease {
    /// The ids of the deliveries.
    pub fn ids(&self) -> Vec<DeliveryId> {
        self.deliveries.iter().map(|delivery| delivery.id).collect()
    }

    /// The deliveries that were claimed before, for [`Upkeep::append_lost`](super::Upkeep::append_lost). If the attempts of one are used up, its burial
    /// is the record of its last attempt.
    pub fn prior_attempts(&self, max_attempts: u32) -> Vec<PriorAttempts> {
        let prior = self.deliveries.iter().map(|one| {
            let is_used_up = one.attempt > one.envelope.max_attempts.unwrap_or(max_attempts);
            PriorAttempts { id: one.id, attempts: one.attempt.saturating_sub(1 + u32::from(is_used_up)) }
        });
        prior.filter(|prior| prior.attempts > 0).collect()
    }
}

/// How many attempts the history of a claimed delivery must have, since it was written or redriven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorAttempts {
    /// The delivery.
    pub id: DeliveryId,
    /// The attempts before this one.
    pub attempts: u32,
}

/// A leased delivery with its event.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The delivery.
    pub id: DeliveryId,
    /// The one consumer behind a broker's lane that it is for.
    pub target: Option<String>,
    /// The attempt number; the first is 1.
    pub attempt: u32,
    /// Whether the event is past its expiry, by the database's clock.
    pub expired: bool,
    /// The event. Shared, because envelopes are large and passed between tasks.
    pub envelope: Arc<Envelope>,
}

/// B.1: warns if a claim did not read exactly the deliveries that it has leased. An event may have been removed by hand, or a row
/// was changed in between; what was not read is claimed again after its lease.
pub(super) fn check_read(claim: &Claim, leased: usize, lease: Lease) -> Lease {
    let read = lease.deliveries.len();
    if read != leased {
        tracing::warn!(lane = claim.lane, leased, read, "a claim has leased other deliveries than it could read");
    }
    lease
}

/// Whether an attempt is appended to the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// It is, as an attempt of the consumer that the lane is named after.
    Keep,
    /// It is not: the lane is no consumer, or does not keep its history.
    Omit,
}

/// A delivery that is to be tried again.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The delivery.
    pub id: DeliveryId,
    /// Time until it is due again.
    pub after: Duration,
    /// The error text.
    pub error: String,
    /// The error code.
    pub code: Option<String>,
}

/// A delivery that is given up.
#[derive(Debug, Clone)]
pub struct Buried {
    /// The delivery.
    pub id: DeliveryId,
    /// False if this claim was no attempt: the attempts were used up before.
    pub tried: bool,
    /// The error text.
    pub error: String,
    /// The error code.
    pub code: Option<String>,
}

/// A stored delivery: waiting, leased or dead.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// Its lane.
    pub lane: String,
    /// The one consumer behind a broker's lane that it is for.
    pub target: Option<String>,
    /// Its shard.
    pub shard: u8,
    /// Its status.
    pub status: DeliveryStatus,
    /// Whether it waits behind a dead delivery of its key.
    pub held: bool,
    /// Attempts so far.
    pub attempts: u32,
    /// When it is due.
    pub due_at: OffsetDateTime,
    /// The holder of the lease.
    pub lock_owner: Option<String>,
    /// When the lease was taken.
    pub lock_time: Option<OffsetDateTime>,
    /// When the lease ends.
    pub lock_until: Option<OffsetDateTime>,
    /// The last error.
    pub last_error: Option<String>,
    /// Of a dead one: since when a person lets the later deliveries of its key go on without it.
    pub skipped_at: Option<OffsetDateTime>,
}

impl Delivery {
    /// The consumer that it is for. Returns `None` for a broker's delivery, which is for all consumers behind the broker.
    pub fn consumer(&self) -> Option<&str> {
        match (self.lane.as_str(), self.target.as_deref()) {
            (RABBITMQ, None) => None,
            (lane, None) => Some(lane),
            (_, target) => target,
        }
    }
}
