//! PostgreSQL. One statement per operation wherever possible; the statements are in `queries/postgres/`.
//!
//! The store has two pools: `work` for the statements of relays and operators, whose sessions are set up for them, and
//! `pool` for transactions that carry the user's own statements, whose sessions are left as they are.

/// `sql!("deliveries/claim")` is the statement in `queries/postgres/deliveries/claim.sql`.
macro_rules! sql {
    ($verb:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/", $verb, ".sql"))
    };
}

/// A short statement that all dialects share; see `sql.rs`.
macro_rules! text {
    ($($part:expr),+ $(,)?) => { concat!($($part),+) };
}
macro_rules! now {
    () => {
        "now()"
    };
}
/// So many milliseconds.
macro_rules! interval {
    ($ms:literal) => {
        concat!($ms, " * interval '1 ms'")
    };
}
macro_rules! later {
    ($ms:literal) => {
        concat!("now() + ", interval!($ms))
    };
}
macro_rules! earlier {
    ($ms:literal) => {
        concat!("now() - ", interval!($ms))
    };
}
/// The clock, not the start time of the caller's transaction.
macro_rules! clock_later {
    ($ms:literal) => {
        concat!("clock_timestamp() + ", interval!($ms))
    };
}
/// Whether a delivery is dead.
macro_rules! is_dead {
    () => {
        "(place = 3)"
    };
}
macro_rules! for_update {
    () => {
        " FOR UPDATE"
    };
}
macro_rules! skip_locked {
    () => {
        " FOR UPDATE SKIP LOCKED"
    };
}
/// Whether a delivery `d` is not dead.
macro_rules! is_alive {
    () => {
        "d.place <> 3"
    };
}
/// Reads the dead deliveries of a lane.
macro_rules! by_dead {
    () => {
        ""
    };
}
/// Reads deliveries by their lane and key.
macro_rules! by_key {
    () => {
        ""
    };
}
/// The bytes of a text.
macro_rules! octets {
    ($text:literal) => {
        concat!("octet_length(", $text, ")::bigint")
    };
}
/// The type of whole numbers in a CAST.
macro_rules! signed {
    () => {
        "bigint"
    };
}
/// The planner finds the index of outcomes itself.
macro_rules! by_outcome {
    () => {
        ""
    };
}
/// A list of numbers as a table `i` with the column `seq`.
macro_rules! seqs {
    ($list:literal) => {
        concat!("unnest(", $list, "::bigint[]) AS i (seq)")
    };
}

#[path = "sql/columns.rs"]
#[allow(clippy::duplicate_mod, reason = "the dialects with a server return the same types")]
mod columns;
#[path = "sql/returning.rs"]
#[allow(clippy::duplicate_mod, reason = "PostgreSQL and SQLite return what they write")]
mod returning;
#[path = "sql/roles.rs"]
#[allow(clippy::duplicate_mod, reason = "each dialect compiles the shared roles for its own types")]
mod roles;
#[path = "sql/server.rs"]
#[allow(clippy::duplicate_mod, reason = "the dialects with a server have the same sessions")]
mod server_sessions;

mod address;
mod audience;
mod deliveries;
mod dialect;
mod enlist;
pub(super) mod error;
mod front;
mod known_keys;
mod rows;
mod wake;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow, PgSslMode};
use sqlx::{ConnectOptions, Postgres, Row as _};
use time::OffsetDateTime;

use self::audience::Audiences;
use self::dialect::write_pairs;
use self::front::Fronts;
use self::known_keys::KnownKeys;
use self::returning::{begin_key, take_marks};
use self::server_sessions::time;
use super::sessions::{Gate, Transactions};
use super::sql::{self, Migration, migrations};
use super::verify::Verify;
use crate::error::{Error, Result};
use crate::outbox::{Dialect, HasDialect};
use crate::wake::Wake;

type Database = Postgres;
type Sessions = super::sessions::Sessions<Database>;

// Types and functions that the shared files use; see `sql.rs`.
type SqlStore = PostgresStore;
type Conn = PgConnection;
type Row = PgRow;
type Time = OffsetDateTime;
type StoreTx = super::Tx<Postgres>;

/// Rows to lock before a redrive is decided, in this order.
const REDRIVE_LOCKS: [&str; 3] = [
    sql!("redrives/redrive_events_lock"),
    sql!("redrives/redrive_deliveries_lock"),
    sql!("redrives/redrive_expected_lock"),
];

/// Sessions whose snapshots slow claims.
const SNAPSHOT_HOLDERS: Option<&str> = Some(sql!("figures/snapshot_holders"));

/// A write that succeeds shows that more would.
const AFTER_PROBE: Option<&str> = None;

const KIND: &str = "postgres";

const MIGRATIONS: &[Migration] = migrations!["postgres": "0001_foundation", "0002_jobs", "0003_pause", "0004_status", "0005_operations", "0006_access", "0007_audience", "0008_audience_version", "0009_subscription_limits", "0010_instances", "0011_lanes_and_log", "0013_access", "0016_history", "0017_promises", "0018_webhook_secrets", "0019_plans", "0020_stories"];

/// Connections of each of the two pools. More do not help a few relays and handlers on one machine.
const POOL_CONNECTIONS: u32 = 10;
/// The name of the store's sessions in `pg_stat_activity`, unless the URL has another.
const SESSION_NAME: &str = "postrider";
/// Connections of the store beside the user's pool.
const STORE_CONNECTIONS: u32 = 4;

/// A store in PostgreSQL 12 or later.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    work: Sessions,
    transactions: Transactions<Postgres>,
    gate: Arc<Gate<Postgres>>,
    url: String,
    wake: Wake,
    audiences: Audiences,
    fronts: Fronts,
    known_keys: KnownKeys,
}

impl HasDialect for PostgresStore {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }
}

/// Returns the schema as a script, to apply with another tool: the migrations after version `after`, or all for 0.
pub fn migrations(after: i64) -> String {
    sql::script(MIGRATIONS, after, sql!("schema/migrations_table"), |hex| format!("'\\x{hex}'"))
}

impl PostgresStore {
    /// Connects, and refuses a connection that is not supported. Does not check the schema: call `migrate` or
    /// [`Schema::schema_version`](super::Schema::schema_version) next.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, POOL_CONNECTIONS).await
    }

    /// Like [`connect`](Self::connect), with at most `connections` (at least two) in each of the two pools: one for
    /// statements of relays and operators, one for transactions. A relay opens one more to listen on.
    pub async fn connect_with(url: &str, connections: u32) -> Result<Self> {
        if connections < 2 {
            return Err(Error::Unsupported(format!("a pool of {connections} is too small: give it 2 connections")));
        }
        let options = PgConnectOptions::from_str(url).map_err(|e| {
            Error::Unsupported(format!("this is no PostgreSQL URL ({e}): write postgres://user@host:5432/database"))
        })?;
        let options = match options.get_application_name() {
            Some(_) => options,
            None => options.application_name(SESSION_NAME),
        };
        let verify = Verify::of(url, options.get_host(), options.get_socket().is_some(), Some("PGSSLMODE"));
        let options = if verify == Verify::ByDefault { options.ssl_mode(PgSslMode::VerifyFull) } else { options };
        let is_verified = matches!(options.get_ssl_mode(), PgSslMode::VerifyCa | PgSslMode::VerifyFull);
        let gate = Arc::new(Gate::new(options.clone()));
        let transactions = Sessions::new(pool(connections), &gate);
        let store = Self::assemble(options, gate, connections, Transactions::Ours(transactions)).await;
        let store = store.map_err(|error| {
            verify.advise(error, "sslmode=verify-full&sslrootcert=FILE", "sslmode=require (or disable)")
        })?;
        verify.warn(&store.url, is_verified);
        Ok(store)
    }

    /// Uses the program's own pool for every transaction that carries the program's statements: those of
    /// [`Enlist::begin`](super::Enlist::begin), of [`transaction`](super::Transactions::transaction), and of
    /// consumers. The pool's sessions are not changed.
    ///
    /// The store opens at most four connections of its own to the same server, named `postrider`, for the statements
    /// of relays and operators, and a relay listens on a fifth. They reconnect by themselves after a failover; the
    /// program is responsible for the given pool.
    pub async fn from_pool(pool: PgPool) -> Result<Self> {
        let options = pool.connect_options().as_ref().clone().application_name(SESSION_NAME);
        let gate = Arc::new(Gate::new(options.clone()));
        Self::assemble(options, gate, STORE_CONNECTIONS, Transactions::Users(pool)).await
    }

    async fn assemble(
        options: PgConnectOptions,
        gate: Arc<Gate<Postgres>>,
        connections: u32,
        transactions: Transactions<Postgres>,
    ) -> Result<Self> {
        let mut printable = options.to_url_lossy();
        // Fails only for a URL that cannot have a password.
        let _ = printable.set_password(None);
        let url = sql::without_defaults(printable.as_str());
        let work = pool(connections).after_connect(|session, _| {
            Box::pin(async move {
                sqlx::raw_sql(sql!("schema/session")).execute(session).await?;
                Ok(())
            })
        });
        let store = Self {
            work: Sessions::new(work, &gate),
            transactions,
            gate,
            url,
            wake: Wake::default(),
            audiences: Audiences::default(),
            fronts: Fronts::default(),
            known_keys: KnownKeys::default(),
        };
        store.refuse_transaction_pooling().await?;
        Ok(store)
    }

    /// The pool that serves transactions.
    pub fn pool(&self) -> &PgPool {
        self.transactions.pool()
    }

    /// Two connections that are open at once have two server processes, unless a pooler shares one between
    /// transactions. Prepared statements and session settings do not survive that.
    async fn refuse_transaction_pooling(&self) -> Result<()> {
        let mut first = self.work.acquire().await?;
        let mut second = self.work.acquire().await?;
        let backend = "SELECT pg_backend_pid()";
        let first: i32 = sqlx::raw_sql(backend).fetch_one(&mut *first).await?.get(0);
        let second: i32 = sqlx::raw_sql(backend).fetch_one(&mut *second).await?.get(0);
        if first == second {
            return Err(Error::Unsupported(format!(
                "{} goes through a pooler that shares a session between transactions (pgbouncer: pool_mode = transaction). \
                 Give Postrider a direct connection, or one with pool_mode = session; your own transactions may keep the pooler",
                self.url
            )));
        }
        Ok(())
    }
}

fn pool(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new().max_connections(connections).acquire_timeout(Duration::from_secs(30))
}

fn stored(time: OffsetDateTime) -> OffsetDateTime {
    time
}

fn numbers(numbers: &[i64]) -> Result<Vec<i64>> {
    Ok(numbers.to_vec())
}
