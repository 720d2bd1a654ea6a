//! Three databases per test, with direct access for queries, write locks and ageing.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use postrider::shard::shard_of;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, MySqlConnection, PgConnection, SqliteConnection};

/// The time limit of a wait. Only a failing test waits this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const SHARDS: usize = 3;

pub(crate) struct Shards {
    urls: Vec<String>,
    place: Place,
}

enum Place {
    Sqlite { folder: PathBuf },
    Postgres { server: String, names: Vec<String> },
    MySql { server: String, names: Vec<String> },
}

/// Runs each case over each store: `crash::postgres::…` needs the server, `crash::sqlite::…` does not.
macro_rules! over_every_store {
    ($($(#[$doc:meta])* $case:ident,)*) => {
        $crate::shards::over_every_store! { sqlite: $($(#[$doc])* $case,)* }
        $crate::shards::over_every_store! { postgres: $($(#[$doc])* $case,)* }
        $crate::shards::over_every_store! { mysql: $($(#[$doc])* $case,)* }
    };
    ($store:ident: $($(#[$doc:meta])* $case:ident,)*) => {
        mod $store {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let shards = $crate::shards::Shards::$store().await;
                super::$case(&shards).await;
                shards.finish().await;
            })*
        }
    };
}
pub(crate) use over_every_store;

/// Blocks all other writers of a shard until it is dropped; readers continue.
pub(crate) enum Standstill {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

impl Standstill {
    /// Ends the block while the blocked process is suspended. Not on MySQL: there the server would complete the pending
    /// statement, keep the row lock, and block the other process. The gap lock stays instead, and lets reads pass.
    pub(crate) async fn end_unless_reads_pass(self) -> Option<Self> {
        match self {
            Self::MySql(_) => Some(self),
            _ => {
                self.end().await;
                None
            }
        }
    }

    pub(crate) async fn end(self) {
        match self {
            Self::Sqlite(mut conn) => {
                sqlx::raw_sql("ROLLBACK").execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Self::Postgres(conn) => conn.close().await.unwrap(),
            Self::MySql(mut conn) => {
                sqlx::raw_sql("UNLOCK TABLES; ROLLBACK").execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
        }
    }
}

impl Shards {
    pub(crate) async fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-inventory-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let url = |n| format!("sqlite://{}", folder.join(format!("shard-{n}.db")).display());
        Self { urls: (0..SHARDS).map(url).collect(), place: Place::Sqlite { folder } }
    }

    pub(crate) async fn postgres() -> Self {
        let (server, names, urls) = beside(&from_environment("POSTRIDER_TEST_POSTGRES"));
        let create = |name| on_postgres(&server, format!("CREATE DATABASE {name} TEMPLATE template0"));
        join_all(names.iter().map(create)).await;
        Self { urls, place: Place::Postgres { server, names } }
    }

    pub(crate) async fn mysql() -> Self {
        let (server, names, urls) = beside(&from_environment("POSTRIDER_TEST_MYSQL"));
        let create = |name| on_mysql(&server, format!("CREATE DATABASE {name}"));
        join_all(names.iter().map(create)).await;
        Self { urls, place: Place::MySql { server, names } }
    }

    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The name of the kind of database.
    pub(crate) fn dialect(&self) -> &'static str {
        match self.place {
            Place::Sqlite { .. } => "sqlite",
            Place::Postgres { .. } => "postgres",
            Place::MySql { .. } => "mysql",
        }
    }

    /// Runs a query that returns one number on one shard.
    pub(crate) async fn number_in(&self, shard: usize, sql: &str) -> i64 {
        macro_rules! ask {
            ($connection:ty) => {{
                let mut conn = <$connection>::connect(&self.urls[shard]).await.unwrap();
                let number = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut conn).await.unwrap();
                conn.close().await.unwrap();
                number
            }};
        }
        match self.place {
            Place::Sqlite { .. } => ask!(SqliteConnection),
            Place::Postgres { .. } => ask!(PgConnection),
            Place::MySql { .. } => ask!(MySqlConnection),
        }
    }

    /// The sum over all shards.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let mut sum = 0;
        for shard in 0..SHARDS {
            sum += self.number_in(shard, sql).await;
        }
        sum
    }

    /// Repeats a query until the sum is `wanted`.
    pub(crate) async fn until(&self, sql: &str, wanted: i64) {
        self.until_it_is(sql, |answer| answer == wanted).await;
    }

    /// Repeats a query until the sum is at least `wanted`.
    pub(crate) async fn until_at_least(&self, sql: &str, wanted: i64) {
        self.until_it_is(sql, |answer| answer >= wanted).await;
    }

    async fn until_it_is(&self, sql: &str, wanted: impl Fn(i64) -> bool) {
        let started = Instant::now();
        loop {
            let answer = self.number(sql).await;
            if wanted(answer) {
                return;
            }
            assert!(started.elapsed() < TIMEOUT, "{sql}: still {answer}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The number of keys with this status.
    pub(crate) async fn keys_in(&self, status: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM inventory_deduction_idempotency WHERE status = '{status}'");
        self.number(&sql).await
    }

    /// Waits until no lease and no reservation is left.
    pub(crate) async fn until_all_is_settled(&self) {
        let leases = "SELECT count(*) FROM inventory_deduction_idempotency WHERE lease_until IS NOT NULL";
        self.until(leases, 0).await;
        self.until("SELECT count(*) FROM inventory_reservation WHERE status = 'RESERVED'", 0).await;
    }

    /// Blocks all other writers of a shard.
    pub(crate) async fn stop_writes_to(&self, shard: usize) -> Standstill {
        match self.place {
            Place::Sqlite { .. } => {
                let mut conn = SqliteConnection::connect(&self.urls[shard]).await.unwrap();
                sqlx::raw_sql("PRAGMA busy_timeout = 30000; BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
                Standstill::Sqlite(conn)
            }
            Place::Postgres { .. } => {
                let mut conn = PgConnection::connect(&self.urls[shard]).await.unwrap();
                let lock = "BEGIN; LOCK TABLE inventory_deduction_idempotency, inventory_reservation, inventory_stock \
                            IN EXCLUSIVE MODE";
                sqlx::raw_sql(lock).execute(&mut conn).await.unwrap();
                Standstill::Postgres(conn)
            }
            Place::MySql { .. } => {
                let mut conn = MySqlConnection::connect(&self.urls[shard]).await.unwrap();
                let lock = "LOCK TABLES inventory_deduction_idempotency READ, inventory_reservation READ, \
                            inventory_stock READ";
                sqlx::raw_sql(lock).execute(&mut conn).await.unwrap();
                Standstill::MySql(conn)
            }
        }
    }

    /// Blocks new reservations in a shard that has none.
    pub(crate) async fn stop_reservations_in(&self, shard: usize) -> Standstill {
        match self.place {
            Place::MySql { .. } => {
                // Locks the gap for new rows. A locking read of the empty table still passes.
                let mut conn = MySqlConnection::connect(&self.urls[shard]).await.unwrap();
                let lock = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN; \
                            SELECT * FROM inventory_reservation FOR UPDATE";
                sqlx::raw_sql(lock).execute(&mut conn).await.unwrap();
                Standstill::MySql(conn)
            }
            _ => self.stop_writes_to(shard).await,
        }
    }

    /// Ages the database past every lease.
    pub(crate) async fn outlast_leases(&self) {
        for shard in 0..SHARDS {
            self.outlast_lease_of_keys(shard).await;
            let age = match self.place {
                Place::Sqlite { .. } | Place::MySql { .. } => {
                    "UPDATE inventory_reservation SET created_at = created_at - 60000"
                }
                Place::Postgres { .. } => "UPDATE inventory_reservation SET created_at = created_at - interval '60 s'",
            };
            self.write_to(shard, age).await;
        }
    }

    /// The same for the keys whose home is this shard, and for its recovery
    /// job, which the stopped process may have held.
    pub(crate) async fn outlast_lease_of_keys(&self, shard: usize) {
        let age = match self.place {
            Place::Sqlite { .. } => {
                "UPDATE inventory_deduction_idempotency SET lease_until = lease_until - 60000;
                 UPDATE postrider_job SET lock_until = lock_until - 60000"
            }
            Place::Postgres { .. } => {
                "UPDATE inventory_deduction_idempotency SET lease_until = lease_until - interval '60 s';
                 UPDATE postrider_job SET lock_until = lock_until - interval '60 s'"
            }
            Place::MySql { .. } => {
                "UPDATE inventory_deduction_idempotency SET lease_until = lease_until - 60000;
                 UPDATE postrider_job SET lock_until = lock_until - INTERVAL 60 SECOND"
            }
        };
        self.write_to(shard, age).await;
    }

    /// Runs a statement on a shard directly.
    pub(crate) async fn write_to(&self, shard: usize, sql: &str) {
        match self.place {
            Place::Sqlite { .. } => {
                let options: SqliteConnectOptions = self.urls[shard].parse().unwrap();
                let mut conn = options.create_if_missing(true).connect().await.unwrap();
                sqlx::raw_sql("PRAGMA busy_timeout = 30000").execute(&mut conn).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Place::Postgres { .. } => on_postgres(&self.urls[shard], sql.to_owned()).await,
            Place::MySql { .. } => on_mysql(&self.urls[shard], sql.to_owned()).await,
        }
    }

    /// Cleans up after a passed test.
    pub(crate) async fn finish(self) {
        match self.place {
            Place::Sqlite { folder } => std::fs::remove_dir_all(folder).unwrap(),
            Place::Postgres { server, names } => {
                let drop = |name| on_postgres(&server, format!("DROP DATABASE {name} WITH (FORCE)"));
                join_all(names.iter().map(drop)).await;
            }
            Place::MySql { server, names } => {
                let drop = |name| on_mysql(&server, format!("DROP DATABASE {name}"));
                join_all(names.iter().map(drop)).await;
            }
        }
    }
}

/// A product or key whose home is this shard.
pub(crate) fn name_in(shard: usize, prefix: &str) -> String {
    let mut names = (0..).map(|n| format!("{prefix}-{n}"));
    names.find(|name| usize::from(shard_of(Some(name), "")) % SHARDS == shard).unwrap()
}

/// The server, the names of new databases, one per shard, and their URLs.
fn beside(server: &str) -> (String, Vec<String>, Vec<String>) {
    let base = format!("inventory_{}", uuid::Uuid::new_v4().simple());
    let names: Vec<_> = (0..SHARDS).map(|n| format!("{base}_{n}")).collect();
    let (place, _) = server.rsplit_once('/').unwrap();
    let urls = names.iter().map(|name| format!("{place}/{name}")).collect();
    (server.to_owned(), names, urls)
}

/// The URL of a server. A missing one is a failure, not a skip.
fn from_environment(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
    })
}

async fn on_postgres(url: &str, sql: String) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

async fn on_mysql(url: &str, sql: String) {
    let mut conn = MySqlConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}
