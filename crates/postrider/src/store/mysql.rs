//! MySQL and MariaDB. The statements are in `queries/mysql/`; the differences to the other dialects are explained in
//! `docs/decisions/0006-mysql.md`.
//!
//! The store has two pools: `work` for the statements of relays and operators, and `pool` for transactions that carry
//! the user's own statements. Sessions of both run at READ COMMITTED, where claims and producers lock rows and never
//! the gaps between them. Sessions of `pool` have autocommit off: after a deadlock the server has ended the
//! transaction, and with autocommit the next write of a consumer that ignored the error would be committed.

/// `sql!("deliveries/claim")` is the statement in `queries/mysql/deliveries/claim.sql`.
macro_rules! sql {
    ($verb:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/mysql/", $verb, ".sql"))
    };
}

/// A short statement that all dialects share; see `sql.rs`. MySQL has only `?`: the compiler replaces `$1`, `$2`, …
/// and refuses a statement that names them in another order.
macro_rules! text {
    ($($part:expr),+ $(,)?) => {{
        const NUMBERED: &str = concat!($($part),+);
        const PLAIN: [u8; NUMBERED.len()] = $crate::store::mysql::placeholders(NUMBERED.as_bytes());
        const TEXT: &str = match std::str::from_utf8(&PLAIN) {
            Ok(text) => text,
            Err(_) => panic!("only single-byte characters are replaced"),
        };
        TEXT
    }};
}
macro_rules! now {
    () => {
        "UTC_TIMESTAMP(6)"
    };
}
/// So many milliseconds.
macro_rules! interval {
    ($ms:literal) => {
        concat!("INTERVAL ", $ms, " * 1000 MICROSECOND")
    };
}
macro_rules! later {
    ($ms:literal) => {
        concat!("UTC_TIMESTAMP(6) + ", interval!($ms))
    };
}
macro_rules! earlier {
    ($ms:literal) => {
        concat!("UTC_TIMESTAMP(6) - ", interval!($ms))
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
        " FORCE INDEX (postrider_delivery_due)"
    };
}
/// Reads deliveries by their lane and key.
macro_rules! by_key {
    () => {
        " FORCE INDEX (postrider_delivery_key)"
    };
}
/// The bytes of a text.
macro_rules! octets {
    ($text:literal) => {
        concat!("OCTET_LENGTH(", $text, ")")
    };
}
/// The type of whole numbers in a CAST.
macro_rules! signed {
    () => {
        "SIGNED"
    };
}
/// The events of an operation with one outcome, in their order: the planner prefers the primary key, and reads all of them.
macro_rules! by_outcome {
    () => {
        " FORCE INDEX (postrider_operation_item_outcome)"
    };
}
/// A list of numbers as a table `i` with the column `seq`.
macro_rules! seqs {
    ($list:literal) => {
        concat!("JSON_TABLE(", $list, ", '$[*]' COLUMNS (seq BIGINT PATH '$')) i")
    };
}

#[path = "sql/columns.rs"]
#[allow(clippy::duplicate_mod, reason = "the dialects with a server return the same types")]
mod columns;
#[path = "sql/roles.rs"]
#[allow(clippy::duplicate_mod, reason = "each dialect compiles the shared roles for its own types")]
mod roles;
#[path = "sql/server.rs"]
#[allow(clippy::duplicate_mod, reason = "the dialects with a server have the same sessions")]
mod server_sessions;
#[path = "sql/polled.rs"]
#[allow(clippy::duplicate_mod, reason = "MySQL and SQLite notify no other process")]
mod wake;

mod deliveries;
mod dialect;
mod enlist;
pub(super) mod error;
mod rows;
mod server;
mod subscribers;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions, MySqlRow, MySqlSslMode};
use sqlx::{ConnectOptions, MySql};
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use self::dialect::{begin_key, take_marks, write_pairs};
use self::server::Server;
use self::server_sessions::time;
use super::sessions::{Gate, Transactions};
use super::sql::{self, Migration, json, migrations};
use super::verify::Verify;
use crate::error::{Error, Result};
use crate::outbox::{Dialect, HasDialect};
use crate::wake::Wake;

type Database = MySql;
type Sessions = super::sessions::Sessions<Database>;

// Types and functions that the shared files use; see `sql.rs`.
type SqlStore = MySqlStore;
type Conn = MySqlConnection;
type Row = MySqlRow;
type Time = OffsetDateTime;
type StoreTx = super::Tx<MySql>;

/// Rows to lock before a redrive is decided, in this order.
const REDRIVE_LOCKS: [&str; 3] = [
    sql!("redrives/redrive_events_lock"),
    sql!("redrives/redrive_deliveries_lock"),
    sql!("redrives/redrive_expected_lock"),
];

/// A long snapshot does not slow claims here.
const SNAPSHOT_HOLDERS: Option<&str> = None;

/// A write that succeeds shows that more would.
const AFTER_PROBE: Option<&str> = None;

const KIND: &str = "mysql";

const MIGRATIONS: &[Migration] = migrations!["mysql": "0001_foundation", "0002_jobs", "0003_pause", "0004_status", "0005_operations", "0006_access", "0009_subscription_limits", "0010_instances", "0011_lanes_and_log", "0013_access", "0016_history", "0017_promises", "0018_webhook_secrets", "0019_plans", "0020_stories"];

/// Session setup for relays and operators. Strict mode makes a value that does not fit an error, whatever the
/// server's default. The lock timeout is shorter than the server's default of 50 seconds.
const WORK_SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
    SET SESSION autocommit = 1, innodb_lock_wait_timeout = 10, sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')";
/// Session setup for transactions with the user's own statements.
const SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION autocommit = 0";
/// Connections of each of the two pools. More do not help a few relays and handlers on one machine.
const POOL_CONNECTIONS: u32 = 10;
/// Connections of the store beside the user's pool.
const STORE_CONNECTIONS: u32 = 4;
/// Maximum bytes of a batch of events in one statement. Larger statements are not faster.
const STATEMENT_BYTES: u64 = 2 * 1024 * 1024;
/// How much larger than its text an event's JSON can be: every character may be written as `\u0001`.
const JSON_FACTOR: u64 = 6;

/// A store in MariaDB 10.6 or later, or in MySQL 8.0.17 or later.
#[derive(Debug, Clone)]
pub struct MySqlStore {
    work: Sessions,
    transactions: Transactions<MySql>,
    statement_bytes: usize,
    url: Arc<str>,
    wake: Wake,
}

impl HasDialect for MySqlStore {
    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }
}

/// Returns the schema as a script, to apply with another tool: the migrations after version `after`, or all for 0.
pub fn migrations(after: i64) -> String {
    sql::script(MIGRATIONS, after, sql!("schema/migrations_table"), |hex| format!("x'{hex}'"))
}

impl MySqlStore {
    /// Connects, and refuses a server that is not supported. Does not check the schema: call `migrate` or
    /// [`Schema::check_schema`](super::Schema::check_schema) next.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, POOL_CONNECTIONS).await
    }

    /// Like [`connect`](Self::connect), with at most `connections` (at least two) in each of the two pools: one for
    /// statements of relays and operators, one for transactions.
    pub async fn connect_with(url: &str, connections: u32) -> Result<Self> {
        if connections < 2 {
            return Err(Error::Unsupported(format!("a pool of {connections} is too small: give it 2 connections")));
        }
        let options = MySqlConnectOptions::from_str(url).map_err(|e| {
            Error::Unsupported(format!("this is no MySQL URL ({e}): write mysql://user@host:3306/database"))
        })?;
        if options.get_database().is_none() {
            return Err(Error::Unsupported("the URL names no database: write mysql://user@host:3306/database".into()));
        }
        let verify = Verify::of(url, options.get_host(), options.get_socket().is_some(), None);
        let options =
            if verify == Verify::ByDefault { options.ssl_mode(MySqlSslMode::VerifyIdentity) } else { options };
        let is_verified = matches!(options.get_ssl_mode(), MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity);
        let gate = Arc::new(Gate::new(options.clone()));
        let transactions = Sessions::new(pool(connections, SESSION), &gate);
        let store = Self::assemble(options, &gate, connections, Transactions::Ours(transactions)).await;
        let store = store.map_err(|error| {
            verify.advise(error, "ssl-mode=VERIFY_IDENTITY&ssl-ca=FILE", "ssl-mode=REQUIRED (or DISABLED)")
        })?;
        verify.warn(&store.url, is_verified);
        Ok(store)
    }

    /// Uses the program's own pool for every transaction that carries the program's statements: those of
    /// [`Enlist::begin`](super::Enlist::begin), of [`transaction`](super::Transactions::transaction), and of
    /// consumers. The pool's sessions are not changed. They should run at READ COMMITTED with `autocommit = 0`;
    /// otherwise the server commits what a consumer writes after a deadlock that it ignored.
    ///
    /// The store opens at most four connections of its own to the same server for the statements of relays and
    /// operators; the driver cannot name them. They reconnect by themselves after a failover; the program is responsible for the given pool.
    pub async fn from_pool(pool: MySqlPool) -> Result<Self> {
        let options = pool.connect_options().as_ref().clone();
        let gate = Arc::new(Gate::new(options.clone()));
        Self::assemble(options, &gate, STORE_CONNECTIONS, Transactions::Users(pool)).await
    }

    async fn assemble(
        options: MySqlConnectOptions,
        gate: &Arc<Gate<MySql>>,
        connections: u32,
        transactions: Transactions<MySql>,
    ) -> Result<Self> {
        let mut printable = options.to_url_lossy();
        // Fails only for a URL that cannot have a password.
        let _ = printable.set_password(None);
        let url = sql::without_defaults(printable.as_str());
        let mut store = Self {
            work: Sessions::new(pool(connections, WORK_SESSION), gate),
            transactions,
            statement_bytes: STATEMENT_BYTES as usize,
            url: url.into(),
            wake: Wake::default(),
        };
        store.check_server().await?;
        Ok(store)
    }

    /// The pool that serves transactions.
    pub fn pool(&self) -> &MySqlPool {
        self.transactions.pool()
    }

    async fn check_server(&mut self) -> Result<()> {
        let (version, binlog_format, max_allowed_packet) =
            sqlx::query_as(sql!("schema/server")).fetch_one(&self.work).await?;
        let server = Server { version, binlog_format, max_allowed_packet };
        server.check(&self.url)?;
        self.statement_bytes = (server.max_allowed_packet / JSON_FACTOR / 2).min(STATEMENT_BYTES) as usize;
        // In transactions, so that none stays open where autocommit is off.
        let mut sessions = vec![self.work.begin().await?];
        if let Transactions::Ours(transactions) = &self.transactions {
            sessions.push(transactions.begin().await?);
        }
        for mut tx in sessions {
            let levels: Vec<(String, String)> = sqlx::query_as(sql!("schema/isolation")).fetch_all(&mut *tx).await?;
            if let Some((_, level)) = levels.iter().find(|(_, level)| level != "READ-COMMITTED") {
                return Err(Error::Unsupported(format!(
                    "{} keeps our sessions at {level} instead of READ COMMITTED: let them choose (a proxy in between may not)",
                    self.url
                )));
            }
        }
        Ok(())
    }
}

fn pool(connections: u32, session: &'static str) -> MySqlPoolOptions {
    let pool = MySqlPoolOptions::new().max_connections(connections).acquire_timeout(Duration::from_secs(30));
    pool.after_connect(move |connection, _| {
        Box::pin(async move {
            sqlx::raw_sql(session).execute(connection).await?;
            Ok(())
        })
    })
}

/// The driver sends an `OffsetDateTime` as a `TIMESTAMP`, which ends in 2038; the columns are `DATETIME`.
fn stored(time: OffsetDateTime) -> PrimitiveDateTime {
    let time = time.to_offset(UtcOffset::UTC);
    PrimitiveDateTime::new(time.date(), time.time())
}

fn numbers(numbers: &[i64]) -> Result<String> {
    json(numbers)
}

/// Replaces `$1`, `$2`, … by `?` and spaces.
const fn placeholders<const LENGTH: usize>(numbered: &[u8]) -> [u8; LENGTH] {
    let mut plain = [0; LENGTH];
    let (mut at, mut next) = (0, 1);
    while at < LENGTH {
        plain[at] = numbered[at];
        if numbered[at] == b'$' && at + 1 < LENGTH && numbered[at + 1].is_ascii_digit() {
            let mut number = 0;
            plain[at] = b'?';
            while at + 1 < LENGTH && numbered[at + 1].is_ascii_digit() {
                at += 1;
                plain[at] = b' ';
                number = 10 * number + (numbered[at] - b'0') as usize;
            }
            assert!(number == next, "parameters are named $1, $2, … in the order in which they are bound");
            next += 1;
        }
        at += 1;
    }
    plain
}
