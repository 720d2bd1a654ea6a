//! SQLite: a store without a server, in one file that any number of processes may share. The statements are in
//! `queries/sqlite/`.
//!
//! SQLite has one writer at a time. Inside this process that is one connection, for which writers queue in order.
//! Between processes it is SQLite's own lock, which every transaction takes before it reads (`BEGIN IMMEDIATE`). So
//! no transaction fails half-way because another one has written. Readers have their own connections and never wait.

/// `sql!("deliveries/claim")` is the statement in `queries/sqlite/deliveries/claim.sql`.
macro_rules! sql {
    ($verb:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/sqlite/", $verb, ".sql"))
    };
}

/// A short statement that all dialects share; see `sql.rs`.
macro_rules! text {
    ($($part:expr),+ $(,)?) => { concat!($($part),+) };
}
macro_rules! now {
    () => {
        "(SELECT now FROM postrider_clock)"
    };
}
/// So many milliseconds.
macro_rules! interval {
    ($ms:literal) => {
        $ms
    };
}
macro_rules! later {
    ($ms:literal) => {
        concat!("(SELECT now FROM postrider_clock) + ", interval!($ms))
    };
}
macro_rules! earlier {
    ($ms:literal) => {
        concat!("(SELECT now FROM postrider_clock) - ", interval!($ms))
    };
}
macro_rules! clock_later {
    ($ms:literal) => {
        later!($ms)
    };
}
/// Whether a delivery is dead.
macro_rules! is_dead {
    () => {
        "dead"
    };
}
/// The transaction has the write lock already.
macro_rules! for_update {
    () => {
        ""
    };
}
macro_rules! skip_locked {
    () => {
        ""
    };
}
/// Whether a delivery `d` is not dead.
macro_rules! is_alive {
    () => {
        "NOT d.dead"
    };
}
/// Reads the dead deliveries of a lane.
macro_rules! by_dead {
    () => {
        " INDEXED BY postrider_delivery_dead"
    };
}
/// Reads deliveries by their lane and key.
macro_rules! by_key {
    () => {
        " INDEXED BY postrider_delivery_key"
    };
}
/// The bytes of a text.
macro_rules! octets {
    ($text:literal) => {
        concat!("octet_length(", $text, ")")
    };
}
/// The type of whole numbers in a CAST.
macro_rules! signed {
    () => {
        "INTEGER"
    };
}
/// The events of an operation with one outcome, in their order: the planner prefers the primary key, and reads all of them.
macro_rules! by_outcome {
    () => {
        " INDEXED BY postrider_operation_item_outcome"
    };
}
/// A list of numbers as a table `i` with the column `seq`.
macro_rules! seqs {
    ($list:literal) => {
        concat!("(SELECT value AS seq FROM json_each(", $list, ")) i")
    };
}

#[path = "sql/returning.rs"]
#[allow(clippy::duplicate_mod, reason = "PostgreSQL and SQLite return what they write")]
mod returning;
#[path = "sql/roles.rs"]
#[allow(clippy::duplicate_mod, reason = "each dialect compiles the shared roles for its own types")]
mod roles;
#[path = "sql/polled.rs"]
#[allow(clippy::duplicate_mod, reason = "MySQL and SQLite notify no other process")]
mod wake;

mod deliveries;
mod dialect;
mod enlist;
pub(super) mod error;
mod file;
mod rows;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqlitePool, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Connection, Sqlite, Transaction};
use time::OffsetDateTime;

use self::dialect::write_pairs;
use self::file::OpenFile;
use self::returning::{begin_key, take_marks};
use super::batch::unix_ms;
use super::sql::{self, Migration, json, migrations};
use crate::error::{Error, Result};
use crate::limits;
use crate::outbox::{Dialect, HasDialect};
use crate::wake::Wake;

// Types and functions that the shared files use; see `sql.rs`.
type SqlStore = SqliteStore;
type Conn = SqliteConnection;
type Row = SqliteRow;
/// Milliseconds since 1970.
type Time = i64;
type StoreTx = Transaction<'static, Sqlite>;

/// Nothing to lock before a redrive is decided: the transaction has the write lock.
const REDRIVE_LOCKS: [&str; 0] = [];

/// A long read delays the checkpoint of the write-ahead log, but no claim.
const SNAPSHOT_HOLDERS: Option<&str> = None;

/// Moves what is in the write-ahead log into the file. A short write finds room in the log although the disk is full; this does
/// not.
const AFTER_PROBE: Option<&str> = Some("PRAGMA wal_checkpoint(PASSIVE)");

const KIND: &str = "sqlite";

const MIGRATIONS: &[Migration] = migrations!["sqlite": "0001_foundation", "0002_jobs", "0003_pause", "0004_status", "0005_operations", "0006_access", "0009_subscription_limits", "0010_instances", "0011_lanes_and_log", "0013_access", "0016_history", "0017_promises", "0018_webhook_secrets", "0019_plans", "0020_stories"];

/// Connections that read. More than the cores of one machine do not help.
const READERS: u32 = 4;
/// How long to wait for another writer, in this process or another, before the store counts as unavailable.
const PATIENCE: Duration = Duration::from_secs(30);
/// Takes the write lock at once. A transaction that reads first and writes later is refused if another one has
/// written in between, and waiting does not help.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// A store in a SQLite file.
///
/// Transactions from [`Enlist::begin`](super::Enlist::begin) and the store's own writes share one connection. A
/// writing method of the store that is called while such a transaction is open waits for it, and ends in
/// [`Error::Unavailable`].
#[derive(Debug, Clone)]
pub struct SqliteStore {
    writer: SqlitePool,
    reader: SqlitePool,
    /// Serves transactions with the user's own statements: the writer, or the user's pool.
    transactions: SqlitePool,
    /// What [`pool`](Self::pool) returns.
    pool: SqlitePool,
    /// What the connections have opened.
    file: Arc<OpenFile>,
    url: Arc<str>,
    wake: Wake,
}

impl HasDialect for SqliteStore {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }
}

/// Returns the schema as a script, to apply with another tool: the migrations after version `after`, or all for 0.
pub fn migrations(after: i64) -> String {
    sql::script(MIGRATIONS, after, sql!("schema/migrations_table"), |hex| format!("x'{hex}'"))
}

impl SqliteStore {
    /// Opens `sqlite://path/to/file.db`, and creates the file and its folder if they do not exist. Does not check the
    /// schema: call `migrate` or [`Schema::check_schema`](super::Schema::check_schema) next.
    pub async fn connect(url: &str) -> Result<Self> {
        let unsupported = |why: &str| Error::Unsupported(format!("{url} {why}: write sqlite://path/to/file.db"));
        if !url.starts_with("sqlite:") {
            return Err(unsupported("is no SQLite URL"));
        }
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|e| unsupported(&format!("is no SQLite URL ({e})")))?
            // Every commit is on disk when it returns, even if the power fails then.
            .synchronous(SqliteSynchronous::Full);
        let file = options.get_filename();
        if url.contains(":memory:") || url.contains("mode=memory") || file.as_os_str().is_empty() {
            return Err(unsupported("names no file, and nothing would outlive its connection"));
        }
        file::create(file).map_err(|e| Error::Unavailable(e.into()))?;
        Self::assemble(options, url, None).await
    }

    /// Uses the program's own pool for every transaction that carries the program's statements: those of
    /// [`Enlist::begin`](super::Enlist::begin), of [`transaction`](super::Transactions::transaction), and of
    /// consumers. They begin with `BEGIN IMMEDIATE`, which waits for other writers for the pool's busy timeout.
    ///
    /// The store opens one connection that writes and up to four that read on the same file.
    pub async fn from_pool(pool: SqlitePool) -> Result<Self> {
        let options = pool.connect_options().as_ref().clone();
        let url = format!("sqlite://{}", options.get_filename().display());
        if options.get_filename().as_os_str().is_empty() || url.contains(":memory:") {
            return Err(Error::Unsupported(
                "the pool names no file: other connections could not see its tables".into(),
            ));
        }
        Self::assemble(options, &url, Some(pool)).await
    }

    async fn assemble(options: SqliteConnectOptions, url: &str, transactions: Option<SqlitePool>) -> Result<Self> {
        // A connection that is opened later must not create a new file in place of one that was removed. All rows of a claim are
        // buffered, instead of being passed one by one.
        let options =
            options.create_if_missing(false).busy_timeout(PATIENCE).row_buffer_size(limits::CLAIM_DELIVERIES as usize);
        let pools = SqlitePoolOptions::new()
            .acquire_timeout(PATIENCE)
            // A file does not close connections.
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None);
        let writer = pools
            .clone()
            .max_connections(1)
            .after_release(|connection, _| Box::pin(is_reusable(connection)))
            .connect_with(options.clone())
            .await?;
        let file = OpenFile::of(options.get_filename()).map_err(|e| Error::Unavailable(e.into()))?;
        let reader = pools.max_connections(READERS).connect_lazy_with(options.pragma("query_only", "on"));
        let pool = transactions.as_ref().unwrap_or(&reader).clone();
        let transactions = transactions.unwrap_or_else(|| writer.clone());
        let store =
            Self { writer, reader, transactions, pool, file: file.into(), url: url.into(), wake: Wake::default() };
        store.log_ahead().await?;
        Ok(store)
    }

    /// Sets write-ahead logging, which lets readers read during a write; the file keeps the setting. SQLite does not
    /// wait here for another instance that does the same, so this does. Nothing has been written yet, and the second
    /// instance finds it set.
    async fn log_ahead(&self) -> Result<()> {
        const PAUSE: Duration = Duration::from_millis(10);
        let mut connection = self.writer.acquire().await?;
        let mut left = PATIENCE;
        loop {
            let mode: sqlx::Result<String> =
                sqlx::query_scalar("PRAGMA journal_mode = WAL").fetch_one(&mut *connection).await;
            match mode.map_err(Error::from) {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => {
                    return Err(Error::Unsupported(format!(
                        "{} keeps its journal mode {mode} instead of WAL: put the file on a local disk",
                        self.url
                    )));
                }
                Err(Error::Unavailable(_)) if !left.is_zero() => {
                    left = left.saturating_sub(PAUSE);
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The pool that the program gave to [`from_pool`](Self::from_pool). Without one, a pool of read-only connections: the
    /// one connection that writes serves transactions.
    pub fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    fn reader(&self) -> &SqlitePool {
        &self.reader
    }

    fn writer(&self) -> Result<&SqlitePool> {
        self.file.check()?;
        Ok(&self.writer)
    }

    /// Begins a transaction of the store.
    async fn write(&self) -> Result<StoreTx> {
        Ok(self.writer()?.begin_with(BEGIN).await?)
    }

    /// One transaction for several reads: a delivery that completes in between is either there or in the history.
    async fn snapshot(&self) -> Result<StoreTx> {
        Ok(self.reader.begin().await?)
    }
}

/// A transaction that SQLite ended itself (`INSERT OR ROLLBACK`, a full disk) cannot be rolled back, and sqlx then
/// treats the connection as inside it permanently. It is the only writer, so it is replaced.
async fn is_reusable(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    if connection.is_in_transaction() {
        // The connection's thread rolls back a dropped transaction asynchronously; the ping waits for it.
        connection.ping().await?;
    }
    Ok(!connection.is_in_transaction())
}

fn time(ms: i64) -> OffsetDateTime {
    rows::time(ms)
}

fn stored(time: OffsetDateTime) -> i64 {
    unix_ms(time)
}

fn numbers(numbers: &[i64]) -> Result<String> {
    json(numbers)
}
