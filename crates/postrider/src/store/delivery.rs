//! Deliveries: how they are claimed, what comes of it, and where they stand.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::entry::DeliveryStatus;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::limits;
use crate::shard::Shards;

/// Proof of a claim. Drawn at random from 2^63 for each claim and never derived from anything that is counted,
/// reset or reused, so that an old one matches nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub i64);

impl Token {
    /// A token that no claim has had.
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
    /// Where a claim saw its row, for a store that can look there first. No part of what the delivery is: another may lie
    /// there by now.
    pub(crate) address: Option<NonZeroU64>,
}

impl DeliveryId {
    /// The delivery with this number, of the event with this sequence.
    pub fn new(sequence: i64, number: i64) -> Self {
        Self { sequence, number, address: None }
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
    /// Of which lane.
    pub lane: String,
    /// Of which shards.
    pub shards: Shards,
    /// At most this many: 1 to [`limits::CLAIM_DELIVERIES`].
    pub limit: u32,
    /// For how long.
    pub lease: Duration,
    /// For whom: a name with an incarnation in it, for people to read; the token is what counts.
    pub owner: String,
}

impl Claim {
    /// A claim of every shard for 30 seconds.
    pub fn new(lane: impl Into<String>, limit: u32) -> Self {
        Self { lane: lane.into(), shards: Shards::ALL, limit, lease: Duration::from_secs(30), owner: "unnamed".into() }
    }

    /// Refuses what a store should not have to ask about.
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

/// What the rest of a key does while its first delivery is DEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeadHead {
    /// Waits until a person has redriven or removed it.
    #[default]
    Hold,
    /// Goes on without it.
    Skip,
}

/// What a claim brought: deliveries in the order of their events, under one token.
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
}

/// A leased delivery with its event.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The delivery.
    pub id: DeliveryId,
    /// For one consumer of a broker lane, or empty.
    pub target: String,
    /// Which attempt this is; the first is 1.
    pub attempt: u32,
    /// Whether the event is past its expiry, by the database's clock.
    pub expired: bool,
    /// The event. Large, and on its way through many hands.
    pub envelope: Arc<Envelope>,
}

/// Whether an attempt is appended to the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// As an attempt of the consumer that the lane is named after.
    Keep,
    /// The lane is no consumer, or does not want it.
    Omit,
}

/// A delivery that is to be tried again.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The delivery.
    pub id: DeliveryId,
    /// Due after this long.
    pub after: Duration,
    /// What went wrong.
    pub error: String,
    /// A code for it.
    pub code: Option<String>,
}

/// A delivery that is given up.
#[derive(Debug, Clone)]
pub struct Buried {
    /// The delivery.
    pub id: DeliveryId,
    /// False where this claim was no try: its attempts were used up before.
    pub tried: bool,
    /// What went wrong.
    pub error: String,
    /// A code for it.
    pub code: Option<String>,
}

/// What became of a redrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redriven {
    /// It was waiting or dead, and is due now.
    Due,
    /// It was done, or never there, and has been made.
    Made,
    /// Refused: somebody is working on it.
    InProgress,
    /// Refused: the event is past its expiry.
    Expired,
    /// There is no such event.
    UnknownEvent,
}

/// A delivery that waits, is worked on, or was given up.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its row.
    pub id: DeliveryId,
    /// Where it waits.
    pub lane: String,
    /// For one consumer of a broker lane, or empty.
    pub target: String,
    /// Its shard.
    pub shard: u8,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Whether it waits behind a dead one of its key.
    pub held: bool,
    /// Attempts so far.
    pub attempts: u32,
    /// When it is due.
    pub due_at: OffsetDateTime,
    /// Who holds it.
    pub lock_owner: Option<String>,
    /// Since when.
    pub lock_time: Option<OffsetDateTime>,
    /// Until when.
    pub lock_until: Option<OffsetDateTime>,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// How many deliveries of a lane stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneCounts {
    /// Never tried.
    pub new: u64,
    /// Leased.
    pub processing: u64,
    /// Waiting for another try.
    pub failed: u64,
    /// Given up.
    pub dead: u64,
    /// Of the new and failed ones, those that wait behind a dead one of their key.
    pub held: u64,
}
