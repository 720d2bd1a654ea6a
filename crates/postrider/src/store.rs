//! What a store does, cut into roles. Each role is a small object-safe trait with one contract: [`Schema`], [`Events`],
//! [`Deliveries`] and so on. [`Store`] is their sum and has no method of its own. Code asks for the role that it needs,
//! and its signature then says what it may touch.
//!
//! [`Enlist`] and [`Keys`] add the operations that run on the caller's connection, inside the caller's transaction.
//!
//! One verb has one name everywhere: the method, the file `queries/<dialect>/<area>/<verb>.sql`, and the module of the
//! conformance suite. [`memory`] is the reference: it does each operation without SQL.

pub mod access;
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

mod alert;
pub(crate) mod audit;
mod batch;
pub(crate) mod decide;
mod delivery;
mod enlist;
mod event;
mod figure;
mod history;
mod instance;
mod job;
mod key_order;
mod lease;
mod list;
mod operation;
mod promise;
mod redrive;
mod schema;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod sessions;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod sql;
mod story;
mod subscription;
mod transaction;
mod upkeep;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod verify;
mod wake;

use std::sync::Arc;

use crate::error::{Error, Result};

pub use access::{Access, AuditLog};
pub use alert::{Alerts, NewAlert, StoredAlert};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
use delivery::check_read;
pub use delivery::{
    Buried, Claim, Claimed, DeadHead, Deliveries, Delivery, DeliveryId, Failed, History, Lease, PriorAttempts, Token,
};
pub use enlist::{Completed, Completion, Enlist, Handled, Key, KeyState, Keys, Receipt};
pub use event::{Appended, Consumption, Enqueued, Events, NewEvent, Record, Report, Routed, Routing, Unheard};
pub use figure::{DeadLetter, Figures, Holding, LaneCounts, Minute};
pub use history::{AttemptList, AttemptPlace, ConsumerAttempt};
pub use instance::{Beat, Instance, Instances, LIVE};
pub use job::{JobOutcome, JobPlan, JobRuns, JobStart, JobState};
pub use key_order::{DeadKey, KeyFront, KeyOrder};
pub(crate) use lease::KeptLease;
pub use lease::Leases;
pub use list::{Counted, Cursor, Filter, List, Page};
pub use operation::{
    Advance, ItemList, ItemOutcome, NewOperation, Operation, OperationItem, OperationRuns, OperationState,
    OperationStep, PlanPage, Progress, Ramp, Steer, StepState,
};
pub use promise::{DoubledKey, PROMISE_HALF_HOURS, PromiseChecks, PromiseNote, Repeat, StoredPromise, half_hour_of};
pub use redrive::{Redriven, Redrives};
pub use schema::{About, Schema, SchemaVersion};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use sessions::Tx;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use sql::is_transaction_lost;
pub use story::{ReceivedEvent, STORED_KEYS, StoredKey, Stories};
pub use subscription::{
    LaneSettings, OwnSecrets, Renamed, SECRET_ROTATION, SecretChange, SecretText, SubscriptionChange,
    SubscriptionChanged, SubscriptionRemoval, SubscriptionRemoved, Subscriptions, Waiting,
};
pub use transaction::{TransactionError, Transactions, retry_lost};
pub use upkeep::{Finished, Folded, Prunable, Prune, Pruned, Upkeep};
pub use wake::Wakeups;

/// Everything that a store does outside the caller's transaction. Every write of claimed work is guarded by its token: a
/// worker that lost its lease writes nothing. Time is always the database's.
///
/// It is implemented for every type that implements all roles. It is object safe: relay, server and command line use
/// `Arc<dyn Store>`.
pub trait Store:
    Schema
    + Events
    + Deliveries
    + Redrives
    + KeyOrder
    + Subscriptions
    + OperationRuns
    + JobRuns
    + Leases
    + Figures
    + Instances
    + Alerts
    + PromiseChecks
    + Stories
    + Upkeep
    + Wakeups
    + Access
    + AuditLog
    + Send
    + Sync
    + 'static
{
}

impl<S> Store for S where
    S: Schema
        + Events
        + Deliveries
        + Redrives
        + KeyOrder
        + Subscriptions
        + OperationRuns
        + JobRuns
        + Leases
        + Figures
        + Instances
        + Alerts
        + PromiseChecks
        + Stories
        + Upkeep
        + Wakeups
        + Access
        + AuditLog
        + Send
        + Sync
        + 'static
{
}

/// What every loop takes as its store: a store of any type, alone or in an `Arc`, or an `Arc<dyn Store>`.
pub trait IntoStore {
    /// The store, shared.
    fn into_store(self) -> Arc<dyn Store>;
}

impl<S: Store> IntoStore for S {
    fn into_store(self) -> Arc<dyn Store> {
        Arc::new(self)
    }
}

impl<S: Store> IntoStore for Arc<S> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

impl IntoStore for Arc<dyn Store> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

/// The default store: a file in a folder of its own, below the program's working directory.
pub const DEFAULT_URL: &str = "sqlite://postrider-data/postrider.db";

/// Connects to the store that a URL names. To enlist in transactions, connect to the concrete type of store instead.
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

/// Returns the schema of the dialect that a URL names as a script: the migrations after version `after`, or all for
/// 0. Opens no connection.
pub fn migrations(url: &str, after: i64) -> Result<String> {
    match scheme(url) {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(sqlite::migrations(after)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(postgres::migrations(after)),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(mysql::migrations(after)),
        other => Err(unknown_scheme(other)),
    }
}

/// Returns the rights of producers, relays and the console as a script of roles, for the dialect that a URL names. Opens no
/// connection. SQLite has no roles: the rights of a file are those of its folder.
pub fn roles(url: &str) -> Result<&'static str> {
    match scheme(url) {
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(include_str!("../roles/postgres.sql")),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(include_str!("../roles/mysql.sql")),
        "sqlite" => Err(Error::Unsupported("SQLite has no roles: restrict who may read and write the file".into())),
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
