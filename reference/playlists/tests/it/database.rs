//! A database for each service of each test, and the auditor's queries.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use postrider::store::Redriven;
use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider::testing::Age;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, SqliteConnection};

/// The time limit of a wait. Only a failing test waits this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than any lease of the services.
const PAST_ANY_LEASE: Duration = Duration::from_secs(60);

pub(crate) struct Database {
    url: String,
    auditor: Auditor,
}

enum Auditor {
    Sqlite { folder: PathBuf },
    Postgres { server: String, name: String },
    MySql { server: String, name: String },
}

/// Runs each case over each store: `cleaning::postgres::…` needs the server, `cleaning::sqlite::…` does not.
macro_rules! over_every_store {
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
        mod mysql {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = $crate::database::Database::mysql().await;
                super::$case(&database).await;
                database.finish().await;
            })*
        }
    };
}
pub(crate) use over_every_store;

impl Database {
    pub(crate) fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-playlists-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let url = format!("sqlite://{}", folder.join("playlists.db").display());
        Self { url, auditor: Auditor::Sqlite { folder } }
    }

    pub(crate) async fn postgres() -> Self {
        let (server, name, url) = beside(&from_environment("POSTRIDER_TEST_POSTGRES"));
        let auditor = Auditor::Postgres { server, name };
        auditor.execute(|name| format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        Self { url, auditor }
    }

    pub(crate) async fn mysql() -> Self {
        let (server, name, url) = beside(&from_environment("POSTRIDER_TEST_MYSQL"));
        let auditor = Auditor::MySql { server, name };
        auditor.execute(|name| format!("CREATE DATABASE {name}")).await;
        Self { url, auditor }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Runs a query that returns one number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        macro_rules! ask {
            ($connection:ty) => {{
                let mut conn = <$connection>::connect(&self.url).await.unwrap();
                let number = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut conn).await.unwrap();
                conn.close().await.unwrap();
                number
            }};
        }
        match &self.auditor {
            Auditor::Sqlite { .. } => ask!(SqliteConnection),
            Auditor::Postgres { .. } => ask!(PgConnection),
            Auditor::MySql { .. } => ask!(MySqlConnection),
        }
    }

    /// Repeats a query until it returns `wanted`.
    pub(crate) async fn until(&self, sql: &str, wanted: i64) {
        let started = Instant::now();
        loop {
            let answer = self.number(sql).await;
            if answer == wanted {
                return;
            }
            assert!(started.elapsed() < TIMEOUT, "{sql}: still {answer}, not {wanted}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until no delivery is left.
    pub(crate) async fn until_all_is_delivered(&self) {
        self.until("SELECT count(*) FROM postrider_delivery", 0).await;
    }

    /// How often the playlists were cleaned for this event.
    pub(crate) async fn cleanings_after(&self, event_id: &str) -> i64 {
        let sql = format!("SELECT coalesce(max(n), 0) FROM cleanings WHERE event_id = '{event_id}'");
        self.number(&sql).await
    }

    /// Delivers an event to a lane again.
    pub(crate) async fn redrive(&self, event_id: &str, lane: &str) {
        let store = postrider::store::connect(&self.url).await.unwrap();
        assert_eq!(store.redrive(event_id, lane, None).await.unwrap(), Redriven::Made);
    }

    /// Ages the leases of a killed process, so that they are expired.
    pub(crate) async fn outlast_leases(&self) {
        match &self.auditor {
            Auditor::Sqlite { .. } => {
                SqliteStore::connect(&self.url).await.unwrap().age(PAST_ANY_LEASE).await.unwrap();
            }
            Auditor::Postgres { .. } => {
                PostgresStore::connect(&self.url).await.unwrap().age(PAST_ANY_LEASE).await.unwrap();
            }
            Auditor::MySql { .. } => {
                MySqlStore::connect(&self.url).await.unwrap().age(PAST_ANY_LEASE).await.unwrap();
            }
        }
    }

    /// Cleans up after a passed test.
    pub(crate) async fn finish(self) {
        match &self.auditor {
            Auditor::Sqlite { folder } => std::fs::remove_dir_all(folder).unwrap(),
            Auditor::Postgres { .. } => self.auditor.execute(|name| format!("DROP DATABASE {name} WITH (FORCE)")).await,
            Auditor::MySql { .. } => self.auditor.execute(|name| format!("DROP DATABASE {name}")).await,
        }
    }
}

impl Auditor {
    /// Runs a statement about the database on its server.
    async fn execute(&self, about: impl Fn(&str) -> String) {
        match self {
            Self::Sqlite { .. } => {}
            Self::Postgres { server, name } => {
                let mut conn = PgConnection::connect(server).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(about(name))).execute(&mut conn).await.unwrap();
            }
            Self::MySql { server, name } => {
                let mut conn = MySqlConnection::connect(server).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(about(name))).execute(&mut conn).await.unwrap();
            }
        }
    }
}

/// The server, the name of a new database, and its URL.
fn beside(server: &str) -> (String, String, String) {
    let name = format!("playlists_{}", uuid::Uuid::new_v4().simple());
    let (place, _) = server.rsplit_once('/').unwrap();
    (server.to_owned(), name.clone(), format!("{place}/{name}"))
}

/// The URL of a server. A missing one is a failure, not a skip.
pub(crate) fn from_environment(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
    })
}
