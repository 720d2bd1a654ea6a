//! What a store does. [`Store`] is object safe and serves everything that works on stored events; [`Enlist`] adds
//! the few operations that happen on a connection of the caller's, inside the caller's transaction.
//!
//! One verb has one name everywhere: the method here, the file `queries/<dialect>/<verb>.sql`, and the module of the
//! conformance suite that says what it means. [`memory`] is that meaning without SQL in the way.

pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

mod batch;
mod schema;

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::DerefMut;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::entry::DeliveryStatus;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::event::EventId;
use crate::limits;
use crate::shard::Shards;
use crate::subscription::{StoredSubscription, Subscription};

pub use schema::SchemaVersion;

/// The store where none is named: a file in a folder of its own, below where the program runs.
pub const DEFAULT_URL: &str = "sqlite://postrider-data/postrider.db";

/// Connects to the store that a URL names. Whoever needs to enlist in transactions connects to its own kind of store.
pub async fn connect(url: &str) -> Result<Arc<dyn Store>> {
    match scheme(url) {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(sqlite::SqliteStore::connect(url).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(postgres::PostgresStore::connect(url).await?)),
        other => Err(unknown_scheme(other)),
    }
}

/// The schema of the dialect that a URL names, as a script; connects to nothing.
pub fn migrations_script(url: &str) -> Result<String> {
    match scheme(url) {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(sqlite::migrations_script()),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(postgres::migrations_script()),
        other => Err(unknown_scheme(other)),
    }
}

fn scheme(url: &str) -> &str {
    url.split_once(':').map_or(url, |(scheme, _)| scheme)
}

fn unknown_scheme(scheme: &str) -> Error {
    Error::Unsupported(format!(
        "{scheme:?} is no store of this program: write sqlite://path or postgres://user@host/database"
    ))
}

/// Stored events and the work they cause. Every write of claimed work is guarded by its token: a worker that lost
/// its lease writes nothing. Time is always the database's.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Brings the schema up to this program's version. Any number of instances may do so at once.
    async fn migrate(&self) -> Result<()>;

    /// Which schema the database has, and which this program needs.
    async fn schema_version(&self) -> Result<SchemaVersion>;

    /// The database's clock.
    async fn now(&self) -> Result<OffsetDateTime>;

    /// Gives deliveries to events that arrived by plain `INSERT`, and to unheard ones that have a subscriber now.
    /// At most `limit` events; concurrent routers share the work.
    async fn route(&self, limit: u32) -> Result<Routed>;

    /// Leases up to `limit` due deliveries without a key, oldest first. Each counts an attempt. Never waits for
    /// another claimer, and returns only what this claim has leased.
    async fn claim(&self, claim: &Claim) -> Result<Lease>;

    /// Leases up to `limit` due deliveries with a key, as runs: of each key a gapless stretch from its first
    /// delivery on, so that nobody else can hold a later one meanwhile. Any earlier delivery that is not due, not
    /// free or (with [`DeadHead::Hold`]) dead keeps the rest of its key waiting.
    async fn claim_keyed(&self, claim: &Claim, dead_head: DeadHead) -> Result<Lease>;

    /// Lengthens the lease to `lease` from now. Returns the deliveries that are still the caller's.
    async fn extend(&self, token: Token, deliveries: &[DeliveryId], lease: Duration) -> Result<Vec<DeliveryId>>;

    /// Removes what is done. Returns the deliveries that were the caller's and, where they have a key, the first
    /// of it; the others are untouched. A token that nobody has replaced counts even after its lease ran out.
    async fn settle(&self, token: Token, deliveries: &[DeliveryId], history: History) -> Result<Vec<DeliveryId>>;

    /// Makes failed deliveries due again later; the rest of their runs is released. Returns those that were the
    /// caller's.
    async fn retry(&self, token: Token, failed: &[Failed], history: History) -> Result<Vec<DeliveryId>>;

    /// Gives deliveries up; the rest of their runs is released. Returns those that were the caller's. The history
    /// gets a last attempt also where this claim was no try: it says that no more will come.
    async fn bury(&self, token: Token, buried: &[Buried], history: History) -> Result<Vec<DeliveryId>>;

    /// Gives deliveries back as they were: the attempt does not count. Returns those that were the caller's.
    async fn release(&self, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>>;

    /// Makes one event's delivery on one lane due now, with its attempts reset; makes it anew where it is done.
    async fn redrive(&self, event_id: &str, lane: &str, target: &str) -> Result<Redriven>;

    /// A consumer in code says what it hears. Writes only where nothing is known yet: what an operator has
    /// disabled, changed or removed stays so.
    async fn register(&self, subscription: &Subscription) -> Result<()>;

    /// An operator's word: written as it is, whatever was there.
    async fn set_subscription(&self, subscription: &Subscription) -> Result<()>;

    /// Removes a subscription for good. False: there was none.
    async fn remove_subscription(&self, topic: &str, consumer: &str) -> Result<bool>;

    /// The subscriptions to a topic, or all; by topic, sort order and consumer. Removed ones are left out.
    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>>;

    /// Appends what a remote consumer reports, under the next attempt number.
    async fn append_consumption(&self, report: &Report) -> Result<Appended>;

    /// Takes a named lease, or takes it over where it ran out. None: someone else holds it.
    async fn acquire_lease(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Token>>;

    /// Lengthens a named lease. False: it is not the caller's any more.
    async fn extend_lease(&self, name: &str, token: Token, lease: Duration) -> Result<bool>;

    /// Gives a named lease back. False: it was not the caller's any more.
    async fn release_lease(&self, name: &str, token: Token) -> Result<bool>;

    /// An event with its deliveries and every attempt.
    async fn find(&self, event_id: &str) -> Result<Option<Found>>;

    /// How many deliveries stand where, by lane.
    async fn counts(&self) -> Result<BTreeMap<String, LaneCounts>>;

    /// How long the oldest delivery that is due has been waiting; None: nothing is.
    async fn oldest_pending(&self) -> Result<Option<Duration>>;

    /// When the next delivery of a lane is due, as time from now; None: nothing waits.
    async fn next_due(&self, lane: &str) -> Result<Option<Duration>>;

    /// Removes what is finished and older than `older_than`, at most `limit` rows looked at in one short
    /// transaction. An event with a delivery, or that nobody has heard, is kept.
    async fn prune(&self, prune: &Prune) -> Result<Pruned>;
}

/// A store whose writes can join a transaction of the caller's.
pub trait Enlist: Store + Clone {
    /// The connection that carries a transaction: what `&mut tx` derefs to.
    type Conn: Send;
    /// A transaction of our own; dropped, it rolls back.
    type Tx: DerefMut<Target = Self::Conn> + Send;

    /// Begins a transaction that can write.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx>> + Send;

    /// Commits it.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<()>> + Send;

    /// Writes events and their deliveries. One answer per event, in order.
    fn enqueue(
        &self,
        conn: &mut Self::Conn,
        batch: &[NewEvent],
        unheard: Unheard,
    ) -> impl Future<Output = Result<Vec<Enqueued>>> + Send;

    /// Writes the inbox row. False: this consumer has had this event before, and nothing was written.
    fn receive(&self, conn: &mut Self::Conn, receipt: &Receipt<'_>) -> impl Future<Output = Result<bool>> + Send;

    /// The last statement of a consumer's transaction: keeps the result, appends the success and removes the
    /// delivery, if the token still holds **and** the inbox row is there. Anything else is
    /// [`Error::LeaseLost`] or [`Error::TransactionLost`], and the transaction must be rolled back: the lease is gone, or
    /// a database error that the consumer swallowed has ended the transaction behind its back.
    fn complete(&self, conn: &mut Self::Conn, completion: &Completion<'_>) -> impl Future<Output = Result<()>> + Send;

    /// Takes an idempotency key.
    fn begin_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        fingerprint: &[u8],
        lease: Duration,
    ) -> impl Future<Output = Result<KeyState>> + Send;

    /// Keeps the result of the work done under a key. False: someone else holds the key by now.
    fn complete_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        token: Token,
        result: &str,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Records that the work under a key failed, so that it may be tried again. False: someone else holds the key.
    fn fail_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        token: Token,
        error: &str,
    ) -> impl Future<Output = Result<bool>> + Send;
}

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId {
    /// The event's sequence.
    pub sequence: i64,
    /// The delivery's own number.
    pub number: i64,
}

/// An event that is about to be stored.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Checked and complete.
    pub envelope: Envelope,
    /// Due this long after the database stores it; overrides `deliver_at`.
    pub delay: Option<Duration>,
    /// Expired this long after the database stores it; overrides `expire_at`.
    pub expire_after: Option<Duration>,
}

/// What happens to an event that no enabled subscription hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unheard {
    /// Stored, and routed when somebody subscribes.
    #[default]
    Keep,
    /// Not stored; the caller is told.
    Skip,
    /// [`Error::Unheard`].
    Refuse,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// Stored with its deliveries.
    Accepted(EventId),
    /// Stored; nobody hears it yet.
    Unheard(EventId),
    /// Not stored: nobody hears it.
    Skipped(EventId),
    /// Not stored: it was there already, with the same content.
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

/// How many events the router has looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Routed {
    /// Given deliveries.
    pub routed: u64,
    /// Found to have no subscriber.
    pub unheard: u64,
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
    /// The event.
    pub envelope: Envelope,
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

/// What a remote consumer reports.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Of which event.
    pub event_id: String,
    /// Who.
    pub consumer: String,
    /// Whether its effect happened.
    pub success: bool,
    /// Whether, having failed, it will try again.
    pub will_retry: bool,
    /// What went wrong.
    pub error: Option<String>,
    /// A code for it.
    pub code: Option<String>,
    /// Makes a repeated report the same attempt.
    pub callback_id: Option<String>,
    /// When, by its own clock.
    pub consumed_at: Option<OffsetDateTime>,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is this attempt.
    Attempt(u32),
    /// It had been reported before, as this attempt.
    Repeated(u32),
    /// Nobody expected it: no such event, or the consumer is not one that reports.
    NotExpected,
}

/// What the inbox remembers of an event.
#[derive(Debug, Clone)]
pub struct Receipt<'a> {
    /// Who received it.
    pub consumer: &'a str,
    /// Which event.
    pub event_id: &'a str,
    /// Of which topic.
    pub topic: &'a str,
    /// Whose.
    pub tenant_id: Option<&'a str>,
    /// The key under which its effect is known elsewhere.
    pub idempotency_key: Option<&'a str>,
}

/// The end of a consumer's transaction.
#[derive(Debug, Clone)]
pub struct Completion<'a> {
    /// Who.
    pub consumer: &'a str,
    /// Which event.
    pub event_id: &'a str,
    /// Its delivery.
    pub delivery: DeliveryId,
    /// The claim under which it was handled.
    pub token: Token,
    /// What the consumer has to say, kept in the inbox.
    pub result: Option<&'a str>,
    /// Whether the success is appended.
    pub history: History,
}

/// A business idempotency key within its scope.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    /// Whose keys: a route, a tenant, an operation.
    pub scope: &'a str,
    /// The key.
    pub key: &'a str,
}

/// How a key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// It is the caller's: do the work, then complete or fail it with this token.
    Begun(Token),
    /// It is the caller's; an earlier holder failed or never finished, so part of its work may be there.
    TakenOver(Token),
    /// Done: this is the result.
    Done(String),
    /// Somebody is at it.
    InProgress,
    /// The key belongs to another request.
    Mismatch,
}

/// An event with everything that happened to it.
#[derive(Debug, Clone)]
pub struct Found {
    /// The event.
    pub envelope: Envelope,
    /// Whether anybody hears it.
    pub routing: Routing,
    /// When the database stored it.
    pub created_at: OffsetDateTime,
    /// What still waits, by lane and target.
    pub deliveries: Vec<Delivery>,
    /// Every attempt, by consumer and number; attempt 0 says that a remote consumer is expected.
    pub consumptions: Vec<Consumption>,
}

/// Whether an event has its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// The router has not seen it.
    New,
    /// It has them.
    Routed,
    /// Nobody hears it yet.
    Unheard,
}

impl Routing {
    /// The word that is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Routed => "ROUTED",
            Self::Unheard => "UNHEARD",
        }
    }
}

impl std::str::FromStr for Routing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::New, Self::Routed, Self::Unheard]
            .into_iter()
            .find(|routing| routing.as_str() == text)
            .ok_or_else(|| Error::corrupt("routing", text))
    }
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

/// One attempt of one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumption {
    /// Who.
    pub consumer: String,
    /// Which attempt; 0 = expected.
    pub attempt: u32,
    /// Whether the effect happened; None for attempt 0.
    pub success: Option<bool>,
    /// Whether, having failed, it will be tried again.
    pub will_retry: bool,
    /// When, by the consumer's clock where it said so.
    pub consumed_at: Option<OffsetDateTime>,
    /// What went wrong.
    pub error: Option<String>,
    /// A code for it.
    pub code: Option<String>,
    /// When it was appended.
    pub created_at: OffsetDateTime,
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

/// What to prune.
#[derive(Debug, Clone, Copy)]
pub struct Prune {
    /// From which table.
    pub what: Prunable,
    /// Older than this.
    pub older_than: Duration,
    /// Where the last batch ended; 0 to begin.
    pub after: i64,
    /// Rows to look at.
    pub limit: u32,
}

/// What can be pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prunable {
    /// Events without a delivery, with their attempts.
    Events,
    /// Inbox rows. Only after everything that could still be delivered again is gone.
    Inbox,
    /// Idempotency keys that nobody holds.
    Keys,
}

/// What a batch of pruning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Rows removed.
    pub removed: u64,
    /// Where to go on; None: the end.
    pub next: Option<i64>,
}
