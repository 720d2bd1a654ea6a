//! A database for each service of each test, and the auditor's questions to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use postrider::store::Redriven;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider::testing::Age;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, SqlitePool};

/// How long to wait for what must come: only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Older than any lease of the services.
const PAST_ANY_LEASE: Duration = Duration::from_secs(60);

pub(crate) struct Database {
    url: String,
    auditor: Auditor,
}

enum Auditor {
    Sqlite { folder: PathBuf },
    Postgres { server: String, name: String },
}

/// Runs each case over each store: `cleaning::postgres::…` needs the server, `cleaning::sqlite::…` does not.
macro_rules! over_both_stores {
    ($($(#[$doc:meta])* $case:ident,)*) => {
        mod sqlite {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = $crate::database::Database::sqlite();
                super::$case(&database).await;
                database.finish().await;
            })*
        }
        mod postgres {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = $crate::database::Database::postgres().await;
                super::$case(&database).await;
                database.finish().await;
            })*
        }
    };
}
pub(crate) use over_both_stores;

impl Database {
    pub(crate) fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-playlists-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let url = format!("sqlite://{}", folder.join("playlists.db").display());
        Self { url, auditor: Auditor::Sqlite { folder } }
    }

    pub(crate) async fn postgres() -> Self {
        let server = from_environment("POSTRIDER_TEST_POSTGRES");
        let name = format!("playlists_{}", uuid::Uuid::new_v4().simple());
        on_the_server(&server, format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let (place, _) = server.rsplit_once('/').unwrap();
        Self { url: format!("{place}/{name}"), auditor: Auditor::Postgres { server, name } }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The one number that a question has for an answer.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match &self.auditor {
            Auditor::Sqlite { .. } => {
                let pool = SqlitePool::connect(&self.url).await.unwrap();
                let number = sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap();
                pool.close().await;
                number
            }
            Auditor::Postgres { .. } => {
                let pool: PgPool = PgPoolOptions::new().max_connections(1).connect(&self.url).await.unwrap();
                let number = sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap();
                pool.close().await;
                number
            }
        }
    }

    /// Asks until the answer is `wanted`.
    pub(crate) async fn until(&self, sql: &str, wanted: i64) {
        let started = Instant::now();
        loop {
            let answer = self.number(sql).await;
            if answer == wanted {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{sql}: still {answer}, not {wanted}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Nothing waits and nothing is being worked on.
    pub(crate) async fn until_all_is_delivered(&self) {
        self.until("SELECT count(*) FROM postrider_delivery", 0).await;
    }

    /// How often the playlists were cleaned after this deletion.
    pub(crate) async fn cleanings_after(&self, event_id: &str) -> i64 {
        let sql = format!("SELECT coalesce(max(n), 0) FROM cleanings WHERE event_id = '{event_id}'");
        self.number(&sql).await
    }

    /// Has an event delivered to a lane once more.
    pub(crate) async fn redrive(&self, event_id: &str, lane: &str) {
        let store = postrider::store::connect(&self.url).await.unwrap();
        assert_eq!(store.redrive(event_id, lane, "").await.unwrap(), Redriven::Made);
    }

    /// As if the leases of a process that was killed had run out.
    pub(crate) async fn outlast_leases(&self) {
        match &self.auditor {
            Auditor::Sqlite { .. } => {
                SqliteStore::connect(&self.url).await.unwrap().age(PAST_ANY_LEASE).await.unwrap();
            }
            Auditor::Postgres { .. } => {
                PostgresStore::connect(&self.url).await.unwrap().age(PAST_ANY_LEASE).await.unwrap();
            }
        }
    }

    /// Cleans up after a test that passed.
    pub(crate) async fn finish(self) {
        match self.auditor {
            Auditor::Sqlite { folder } => std::fs::remove_dir_all(folder).unwrap(),
            Auditor::Postgres { server, name } => {
                on_the_server(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await;
            }
        }
    }
}

/// A server's URL; one that is missing is a failure, not a skip.
pub(crate) fn from_environment(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
    })
}

async fn on_the_server(server: &str, sql: String) {
    let mut conn = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}
