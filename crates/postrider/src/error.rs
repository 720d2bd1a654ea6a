//! Errors, sorted by what the caller can do. Each variant keeps its source. Nothing here is logged: the caller who
//! handles the error does that once.

use std::error::Error as StdError;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input breaks a rule. Nothing was written; correct the field.
    #[error("{field} {message}")]
    Invalid {
        /// The field, as the API names it.
        field: &'static str,
        /// The rule and how it was broken.
        message: String,
    },
    /// The input is over a size limit. Nothing was written; send less.
    #[error("{field} {message}")]
    TooLarge {
        /// The field, as the API names it.
        field: &'static str,
        /// The limit and the size.
        message: String,
    },
    /// The event id belongs to an event with other content. Roll back, and choose another id or find out why one id
    /// was used for two facts.
    #[error("event id {event_id} is taken by an event with other content: roll back and use another id")]
    IdConflict {
        /// The id.
        event_id: String,
    },
    /// The topic has no subscription, and the outbox refuses such events
    /// ([`Unheard::Refuse`](crate::store::Unheard::Refuse)).
    #[error("no enabled consumer subscribes to topic {topic}: subscribe one, or let unheard events be kept")]
    Unheard {
        /// The topic.
        topic: String,
    },
    /// The database ended the caller's transaction (a deadlock, or a snapshot that is too old for its isolation
    /// level). Nothing more was sent on it; roll back and run the whole transaction again.
    #[error("the database ended this transaction: roll back and run it again")]
    TransactionLost(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection has no transaction, so the event would be stored even if the change that it announces is rolled back.
    /// Nothing was written.
    #[error(
        "an event is written in your transaction, and this connection has none: begin one, enqueue on it and commit it; \
         without a transaction, publish with `Bus`"
    )]
    NoTransaction,
    /// The lease was lost before the work was recorded. Roll back: the new holder decides.
    #[error("the lease of this delivery is gone: roll back, its new holder decides")]
    LeaseLost,
    /// A rule forbids to redrive, expire or discard the event, to rename the consumer, or to change the subscription.
    /// Nothing was written.
    #[error("{0}")]
    Refused(#[source] crate::redrive::Refusal),
    /// The database has no tables of Postrider, or the connection searches for them in another schema.
    #[error(
        "the tables of Postrider are not in this database: call `store.migrate()` when your program starts, or run `postrider migrate up`"
    )]
    NoTables(#[source] Box<dyn StdError + Send + Sync>),
    /// The database has an older schema than this program (or none).
    #[error(
        "the schema of {store} is at version {found}, this program needs {needed}: call `store.migrate()` when your program starts, or run `postrider migrate up --store '{store}'`"
    )]
    SchemaOutOfDate {
        /// The store's URL, without its password.
        store: String,
        /// The newest migration that has been applied; 0 for an empty database.
        found: i64,
        /// The migration this program was built with.
        needed: i64,
    },
    /// The database has a newer schema than this program.
    #[error(
        "the schema of {store} is at version {found}, newer than this program knows ({needed}): update the program"
    )]
    SchemaTooNew {
        /// The store's URL, without its password.
        store: String,
        /// The newest migration that has been applied.
        found: i64,
        /// The migration this program was built with.
        needed: i64,
    },
    /// The store does not support the way it is used; the text says what to change.
    #[error("{0}")]
    Unsupported(String),
    /// The store did not answer. It is not known whether anything was written; try again later.
    #[error("the store is not available: try again later")]
    Unavailable(#[source] Box<dyn StdError + Send + Sync>),
    /// The store refused a statement for another reason.
    #[error("the store refused: {0}")]
    Store(#[source] Box<dyn StdError + Send + Sync>),
    /// The event could not be serialized as JSON.
    #[error("the event cannot be written as JSON: {0}")]
    Encode(#[source] serde_json::Error),
}

/// Why a store takes no writes although it answers. The cause of [`Error::Unavailable`]; see [`Error::obstacle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Its disk is full, or fails.
    #[error("the disk of the store is full or cannot be written: free some space")]
    Full,
    /// It is read-only, as a standby is.
    #[error("the store is read-only")]
    ReadOnly,
    /// The file that was opened is no longer at its path.
    #[error("the database file was removed or replaced while it was open: put it back, or restart this program")]
    Replaced,
}

/// An obstacle with the error of the driver that shows it.
#[derive(Debug, thiserror::Error)]
#[error("{obstacle}")]
struct Obstructed {
    obstacle: Obstacle,
    #[source]
    error: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Why the store takes no writes, if that is the reason of [`Error::Unavailable`].
    pub fn obstacle(&self) -> Option<Obstacle> {
        let Self::Unavailable(cause) = self else { return None };
        cause.downcast_ref::<Obstructed>().map(|obstructed| obstructed.obstacle)
    }

    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(crate) fn obstructed(obstacle: Obstacle, error: Option<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unavailable(Obstructed { obstacle, error }.into())
    }

    pub(crate) fn invalid(field: &'static str, message: String) -> Self {
        Self::Invalid { field, message }
    }

    pub(crate) fn too_large(field: &'static str, message: String) -> Self {
        Self::TooLarge { field, message }
    }

    /// An inbox row that this transaction wrote does not exist: the database has ended the transaction.
    pub(crate) fn not_received() -> Self {
        Self::TransactionLost("the inbox row of this transaction is gone".into())
    }

    /// A stored value that no version of this program writes.
    pub(crate) fn corrupt(what: &'static str, found: &str) -> Self {
        Self::Store(format!("{what} holds {found:?}, which this program does not know").into())
    }
}
