//! Three databases for each test, and what only a test does to them: looking, holding still, letting time pass.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use postrider::shard::shard_of;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, SqliteConnection, SqlitePool};

/// How long to wait for what must come: only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How many there are.
pub(crate) const SHARDS: usize = 3;

pub(crate) struct Shards {
    urls: Vec<String>,
    place: Place,
}

enum Place {
    Sqlite { folder: PathBuf },
    Postgres { server: String, names: Vec<String> },
}

/// Runs each case over each store: `crash::postgres::…` needs the server, `crash::sqlite::…` does not.
macro_rules! over_both_stores {
    ($($(#[$doc:meta])* $case:ident,)*) => {
        mod sqlite {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let shards = $crate::shards::Shards::sqlite();
                super::$case(&shards).await;
                shards.finish().await;
            })*
        }
        mod postgres {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let shards = $crate::shards::Shards::postgres().await;
                super::$case(&shards).await;
                shards.finish().await;
            })*
        }
    };
}
pub(crate) use over_both_stores;

/// While this lives, nobody else writes to the shard; everybody reads.
pub(crate) enum Standstill {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Standstill {
    pub(crate) async fn end(self) {
        match self {
            Self::Sqlite(mut conn) => {
                sqlx::raw_sql("ROLLBACK").execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Self::Postgres(conn) => conn.close().await.unwrap(),
        }
    }
}

impl Shards {
    pub(crate) fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-inventory-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let url = |n| format!("sqlite://{}", folder.join(format!("shard-{n}.db")).display());
        Self { urls: (0..SHARDS).map(url).collect(), place: Place::Sqlite { folder } }
    }

    pub(crate) async fn postgres() -> Self {
        let server = std::env::var("POSTRIDER_TEST_POSTGRES").unwrap_or_else(|_| {
            panic!("POSTRIDER_TEST_POSTGRES is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
        });
        let base = format!("inventory_{}", uuid::Uuid::new_v4().simple());
        let names: Vec<_> = (0..SHARDS).map(|n| format!("{base}_{n}")).collect();
        let create = |name| on_the_server(&server, format!("CREATE DATABASE {name} TEMPLATE template0"));
        join_all(names.iter().map(create)).await;
        let (place, _) = server.rsplit_once('/').unwrap();
        let urls = names.iter().map(|name| format!("{place}/{name}")).collect();
        Self { urls, place: Place::Postgres { server, names } }
    }

    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The one number that a question to a shard has for an answer.
    pub(crate) async fn number_in(&self, shard: usize, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match self.place {
            Place::Sqlite { .. } => {
                let pool = SqlitePool::connect(&self.urls[shard]).await.unwrap();
                let number = sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap();
                pool.close().await;
                number
            }
            Place::Postgres { .. } => {
                let pool: PgPool = PgPoolOptions::new().max_connections(1).connect(&self.urls[shard]).await.unwrap();
                let number = sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap();
                pool.close().await;
                number
            }
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

    /// Asks all shards until the sum is `wanted`.
    pub(crate) async fn until(&self, sql: &str, wanted: i64) {
        self.until_it_is(sql, |answer| answer == wanted).await;
    }

    /// Asks all shards until the sum is `wanted` or more.
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
            assert!(started.elapsed() < PATIENCE, "{sql}: still {answer}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Keys of the log in this state.
    pub(crate) async fn keys_in(&self, status: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM inventory_deduction_idempotency WHERE status = '{status}'");
        self.number(&sql).await
    }

    /// Nothing is left for anybody to do.
    pub(crate) async fn until_all_is_settled(&self) {
        let leases = "SELECT count(*) FROM inventory_deduction_idempotency WHERE lease_until IS NOT NULL";
        self.until(leases, 0).await;
        self.until("SELECT count(*) FROM inventory_reservation WHERE status = 'RESERVED'", 0).await;
    }

    /// Keeps everybody else from writing to a shard.
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
        }
    }

    /// As if every lease had run out.
    pub(crate) async fn outlast_leases(&self) {
        for shard in 0..SHARDS {
            self.outlast_lease_of_keys(shard).await;
            let age = match self.place {
                Place::Sqlite { .. } => "UPDATE inventory_reservation SET created_at = created_at - 60000",
                Place::Postgres { .. } => "UPDATE inventory_reservation SET created_at = created_at - interval '60 s'",
            };
            self.write_to(shard, age).await;
        }
    }

    /// As if those of the keys that are at home in a shard had.
    pub(crate) async fn outlast_lease_of_keys(&self, shard: usize) {
        let age = match self.place {
            Place::Sqlite { .. } => "UPDATE inventory_deduction_idempotency SET lease_until = lease_until - 60000",
            Place::Postgres { .. } => {
                "UPDATE inventory_deduction_idempotency SET lease_until = lease_until - interval '60 s'"
            }
        };
        self.write_to(shard, age).await;
    }

    /// Does to a shard what no program should.
    pub(crate) async fn write_to(&self, shard: usize, sql: &'static str) {
        match self.place {
            Place::Sqlite { .. } => {
                let mut conn = SqliteConnection::connect(&self.urls[shard]).await.unwrap();
                sqlx::raw_sql("PRAGMA busy_timeout = 30000").execute(&mut conn).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Place::Postgres { .. } => {
                let mut conn = PgConnection::connect(&self.urls[shard]).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
        }
    }

    /// Cleans up after a test that passed.
    pub(crate) async fn finish(self) {
        match self.place {
            Place::Sqlite { folder } => std::fs::remove_dir_all(folder).unwrap(),
            Place::Postgres { server, names } => {
                let drop = |name| on_the_server(&server, format!("DROP DATABASE {name} WITH (FORCE)"));
                join_all(names.iter().map(drop)).await;
            }
        }
    }
}

/// A name that is at home in this shard: a product's or a key's.
pub(crate) fn name_in(shard: usize, prefix: &str) -> String {
    let mut names = (0..).map(|n| format!("{prefix}-{n}"));
    names.find(|name| usize::from(shard_of(Some(name), "")) % SHARDS == shard).unwrap()
}

async fn on_the_server(server: &str, sql: String) {
    let mut conn = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}
