//! What a store does. [`Store`] is object safe and serves everything that works on stored events; [`Enlist`] adds
//! the few operations that happen on a connection of the caller's, inside the caller's transaction.
//!
//! One verb has one name everywhere: the method here, the file `queries/<dialect>/<verb>.sql`, and the module of the
//! conformance suite that says what it means. [`memory`] is that meaning without SQL in the way.

pub mod access;
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

mod batch;
mod delivery;
mod event;
mod figure;
mod job;
mod list;
mod operation;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod redrive;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod rollup;
mod schema;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::DerefMut;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::alert::SnapshotHolder;
use crate::error::{Error, Result};
use crate::redrive::{RedriveRules, Refusal};
use crate::subscription::{StoredSubscription, Subscription};
use crate::wake::Wake;

pub use access::Access;
pub use delivery::{
    Buried, Claim, Claimed, DeadHead, Delivery, DeliveryId, Failed, History, LaneCounts, Lease, Redriven, Token,
};
pub use event::{Appended, Consumption, Enqueued, Folded, Found, NewEvent, Report, Routed, Routing, Unheard};
pub use figure::{Holding, Minute};
pub use job::{JobOutcome, JobPlan, JobStart, JobState};
pub use list::{Cursor, Filter, List, Page};
pub use operation::{Advance, NewOperation, Operation, OperationState, Steer};
pub use schema::SchemaVersion;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use sessions::Tx;

/// The store where none is named: a file in a folder of its own, below where the program runs.
pub const DEFAULT_URL: &str = "sqlite://postrider-data/postrider.db";

/// Connects to the store that a URL names. Whoever needs to enlist in transactions connects to its own kind of store.
pub async fn connect(url: &str) -> Result<Arc<dyn Store>> {
    match scheme(url) {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(sqlite::SqliteStore::connect(url).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(postgres::PostgresStore::connect(url).await?)),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(Arc::new(mysql::MySqlStore::connect(url).await?)),
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
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(mysql::migrations_script()),
        other => Err(unknown_scheme(other)),
    }
}

fn scheme(url: &str) -> &str {
    url.split_once(':').map_or(url, |(scheme, _)| scheme)
}

fn unknown_scheme(scheme: &str) -> Error {
    Error::Unsupported(format!(
        "{scheme:?} is no store of this program: write sqlite://path, postgres://user@host/database or \
         mysql://user@host/database"
    ))
}

/// Stored events and the work they cause. Every write of claimed work is guarded by its token: a worker that lost
/// its lease writes nothing. Time is always the database's.
#[async_trait]
pub trait Store: Access + Send + Sync + 'static {
    /// Brings the schema up to this program's version. Any number of instances may do so at once.
    async fn migrate(&self) -> Result<()>;

    /// Which schema the database has, and which this program needs.
    async fn schema_version(&self) -> Result<SchemaVersion>;

    /// How messages name it: its URL, without a password.
    fn name(&self) -> &str;

    /// Refuses a schema that is not this program's, with the command that brings it up to date.
    async fn check_schema(&self) -> Result<()> {
        self.schema_version().await?.check(self.name())
    }

    /// The database's clock.
    async fn now(&self) -> Result<OffsetDateTime>;

    /// Writes events and their deliveries in one transaction of the store's own, for those who have none to join. One answer
    /// per event, in order; after an error nothing is written.
    async fn publish(&self, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>>;

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

    /// Makes one event's delivery on one lane due now, with its attempts reset; makes it anew where it is done. Asks no rule
    /// but the lease and the expiry: [`Store::redrive_event`] is what people are given.
    async fn redrive(&self, event_id: &str, lane: &str, target: &str) -> Result<Redriven>;

    /// Makes what is left of an event due now, or one consumer's part of it, also of one that came later, if the rules allow
    /// it: they are asked of the rows, locked. Answers with the event as it is then, or with the rule that forbids it.
    async fn redrive_event(
        &self,
        event_id: &str,
        consumer: Option<&str>,
        rules: &RedriveRules,
    ) -> Result<std::result::Result<Found, Refusal>>;

    /// Expires an event by hand, unless it has been consumed: nothing of it is delivered any more, and whoever holds a lease
    /// on it has lost it. Answers with the event as it is then, or why not.
    async fn expire(&self, event_id: &str) -> Result<std::result::Result<Found, Refusal>>;

    /// Writes a bulk operation down, for [`Operations`](crate::operations::Operations) to work on. Under an id that is known
    /// nothing is written: the answer is the operation that there is.
    async fn create_operation(&self, new: &NewOperation) -> Result<Operation>;

    /// How an operation stands.
    async fn operation(&self, id: &str) -> Result<Option<Operation>>;

    /// The newest operations.
    async fn operations(&self, limit: u32) -> Result<Vec<Operation>>;

    /// Pauses, resumes or cancels an operation, where its state allows it; nothing more of it is done from then on, not even
    /// by whoever is at it. Answers with the operation as it is then: whoever wants to know whether it obeyed looks at its
    /// state. None: there is none.
    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>>;

    /// Takes the oldest running operation that nobody works on.
    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>>;

    /// Redrives a batch of events by the operation's rules, and counts them, in one transaction. None: the operation is not
    /// the caller's any more, or not running, and nothing was done.
    async fn advance_operation(&self, advance: &Advance<'_>) -> Result<Option<Operation>>;

    /// Gives an operation back. False: it was not the caller's any more.
    async fn release_operation(&self, id: &str, token: Token) -> Result<bool>;

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

    /// Brings the stored status of events up to date: of up to `limit` that were marked since it was last done, of those
    /// whose expiry has come, and of those that are new. Marks are removed before the rows are read, so that what
    /// commits meanwhile is marked for the next time. Waits for no producer and no consumer; of two at once the second
    /// waits for the first.
    async fn fold(&self, limit: u32) -> Result<Folded>;

    /// Takes a named lease, or takes it over where it ran out. None: someone else holds it.
    async fn acquire_lease(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Token>>;

    /// Lengthens a named lease. False: it is not the caller's any more.
    async fn extend_lease(&self, name: &str, token: Token, lease: Duration) -> Result<bool>;

    /// Gives a named lease back. False: it was not the caller's any more.
    async fn release_lease(&self, name: &str, token: Token) -> Result<bool>;

    /// An event with its deliveries and every attempt.
    async fn find(&self, event_id: &str) -> Result<Option<Found>>;

    /// A page of events, the newest first. One indexed filter leads and the others are asked of what it brings, of
    /// [`SCAN_EVENTS`](crate::limits::SCAN_EVENTS) at most, so that a page may be short and the list go on. Which events are on
    /// it may lag behind by what the roll-up has not folded; how they stand does not.
    async fn list(&self, list: &List) -> Result<Page>;

    /// How many deliveries stand where, by lane.
    async fn counts(&self) -> Result<BTreeMap<String, LaneCounts>>;

    /// What happened per minute, from one time to another, as far as the roll-up has seen it; minutes without events are
    /// left out.
    async fn figures(&self, from: OffsetDateTime, to: OffsetDateTime) -> Result<Vec<Minute>>;

    /// Who holds what at this moment: leased deliveries by lane, named leases, running jobs, bulk operations.
    async fn holdings(&self) -> Result<Vec<Holding>>;

    /// How long the oldest due delivery of each lane has been waiting, in the order of the lanes; None: nothing is.
    async fn oldest_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>>;

    /// How long the oldest delivery that is due has been waiting; None: nothing is.
    async fn oldest_pending(&self) -> Result<Option<Duration>>;

    /// When the next delivery of each lane is due or its lease over, as time from now, in the order of the lanes; None:
    /// nothing waits there.
    async fn next_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>>;

    /// Which of these events are there for all to see: their transactions have committed.
    async fn sight(&self, event_ids: &[&str]) -> Result<Vec<String>>;

    /// Stops or resumes the claims of a lane, on every instance, also after a restart. Relays obey within a second or two;
    /// what they have claimed is finished.
    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()>;

    /// The lanes that are paused.
    async fn paused(&self) -> Result<BTreeSet<String>>;

    /// Removes what is finished and older than `older_than`, at most `limit` rows looked at in one short
    /// transaction. An event with a delivery, or that nobody has heard, is kept.
    async fn prune(&self, prune: &Prune) -> Result<Pruned>;

    /// What pruning events would remove, whole, for whoever keeps it elsewhere first: the finished ones of at most
    /// `limit` old events.
    async fn finished(&self, prune: &Prune) -> Result<Finished>;

    /// Removes these events, as far as they are still finished. Returns how many went.
    async fn prune_events(&self, sequences: &[i64]) -> Result<u64>;

    /// Where this process's enqueuers and relays meet; the same for all clones of a store.
    fn wake(&self) -> &Wake;

    /// Tells the relays of other processes, as `from`, that there is something to claim. Stores that cannot are polled.
    async fn announce(&self, _from: &str) -> Result<()> {
        Ok(())
    }

    /// Hears announcements, and who made them, until that fails.
    async fn listen(&self, _heard: &(dyn for<'a> Fn(&'a str) + Send + Sync)) -> Result<()> {
        std::future::pending().await
    }

    /// Who has kept a snapshot open for longer than `older_than`, where that slows claims.
    async fn snapshot_holders(&self, _older_than: Duration) -> Result<Vec<SnapshotHolder>> {
        Ok(Vec::new())
    }

    /// Writes down a job's schedule and when it runs next. A job that was not known, or that had another schedule, is the
    /// job's from now on: [`JobState::since`].
    async fn plan_job(&self, plan: &JobPlan<'_>) -> Result<()>;

    /// Begins a run of a planned job, if nobody holds an unexpired lease on it and its slot has come and is later than the
    /// last one begun: each slot fires once, and no run beside another. None: it is not the caller's.
    async fn begin_job(&self, start: &JobStart<'_>) -> Result<Option<Token>>;

    /// Lengthens the lease of a run to `lease` from now. False: it is not the caller's any more.
    async fn extend_job(&self, name: &str, token: Token, lease: Duration) -> Result<bool>;

    /// Says how a run ended, and lets the job go. False: it was not the caller's any more, and nothing is written. A token
    /// that nobody has replaced counts even after its lease ran out.
    async fn finish_job(&self, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool>;

    /// How every job stands, by name.
    async fn jobs(&self) -> Result<Vec<JobState>>;
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

    /// The same for many events. One answer per receipt, in order.
    fn receive_many(
        &self,
        conn: &mut Self::Conn,
        receipts: &[Receipt<'_>],
    ) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// The last statement of a consumer's transaction: keeps the results, appends the successes and removes the
    /// deliveries, if the token still holds **and** every inbox row is there. Anything else is
    /// [`Error::LeaseLost`] or [`Error::TransactionLost`], and the transaction must be rolled back: the lease is gone, or
    /// a database error that the consumer swallowed has ended the transaction behind its back.
    fn complete(&self, conn: &mut Self::Conn, completion: &Completion<'_>) -> impl Future<Output = Result<()>> + Send;

    /// The last statement of a consumer's transaction where the delivery is not in this database, but a message of a
    /// broker's: keeps the results, if every inbox row is there. Anything else is [`Error::TransactionLost`], as above.
    fn confirm_received(
        &self,
        conn: &mut Self::Conn,
        consumer: &str,
        handled: &[Handled<'_>],
    ) -> impl Future<Output = Result<()>> + Send;

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

    /// Takes a key that was begun in an earlier transaction into this one, until which ends nobody else can take it over.
    /// Only the new token completes it: if this transaction is rolled back, also behind the caller's back, the new token
    /// never was, and completes nothing. None: someone else holds the key.
    fn join_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        token: Token,
        lease: Duration,
    ) -> impl Future<Output = Result<Option<Token>>> + Send;

    /// Lengthens the lease of a key to `lease` from now. False: someone else holds it.
    fn extend_key(
        &self,
        conn: &mut Self::Conn,
        key: &Key<'_>,
        token: Token,
        lease: Duration,
    ) -> impl Future<Output = Result<bool>> + Send;
}

/// [`Store::publish`] of a store that can enlist. The transaction is ours: nobody else could run it again.
async fn publish(store: &impl Enlist, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
    let mut tx = store.begin().await?;
    let enqueued = store.enqueue(&mut tx, batch, unheard).await?;
    store.commit(tx).await?;
    Ok(enqueued)
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
    /// The claim under which all of them were handled.
    pub token: Token,
    /// Whether the successes are appended.
    pub history: History,
    /// What was handled.
    pub completed: &'a [Completed<'a>],
}

/// One event that a consumer has handled.
#[derive(Debug, Clone)]
pub struct Completed<'a> {
    /// Which event.
    pub event_id: &'a str,
    /// Its delivery.
    pub delivery: DeliveryId,
    /// What the consumer has to say, kept in the inbox; None leaves what is there.
    pub result: Option<&'a str>,
}

/// One event that a consumer has handled, of which the store knows no delivery.
#[derive(Debug, Clone)]
pub struct Handled<'a> {
    /// Which event.
    pub event_id: &'a str,
    /// What the consumer has to say, kept in the inbox; None leaves what is there.
    pub result: Option<&'a str>,
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
    /// Bulk operations that have ended.
    Operations,
    /// Figures of charts.
    Figures,
}

/// Events that are finished and old.
#[derive(Debug, Clone)]
pub struct Finished {
    /// With payload, metadata and every attempt.
    pub events: Vec<Found>,
    /// Where to go on; None: the end.
    pub next: Option<i64>,
}

/// What a batch of pruning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Rows removed.
    pub removed: u64,
    /// Where to go on; None: the end.
    pub next: Option<i64>,
}
