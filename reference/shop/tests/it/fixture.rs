//! A shop for each test, and shared steps.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider::testing::{Age, drain};
use postrider::{RetryPolicy, Transport};
use postrider_shop::accounts::{self, Account};
use postrider_shop::audit::audit;
use postrider_shop::orders::{self, By, Order, Wanted};
use postrider_shop::payments::Payment;
use postrider_shop::refunds::Refund;
use postrider_shop::{Caller, Database, Settings, Shop, ShopError, consumers, payments, refunds};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};
use uuid::Uuid;

/// How to remove a test database.
pub(crate) enum Place {
    Sqlite { folder: PathBuf },
    Postgres { server: String, name: String },
    MySql { server: String, name: String },
}

/// Runs each case over each store: `races::postgres::…` needs the server, `races::sqlite::…` does not.
macro_rules! over_every_store {
    ($($(#[$doc:meta])* $case:ident,)*) => {
        $crate::fixture::over_every_store! { sqlite, SqliteStore: $($(#[$doc])* $case,)* }
        $crate::fixture::over_every_store! { postgres, PostgresStore: $($(#[$doc])* $case,)* }
        $crate::fixture::over_every_store! { mysql, MySqlStore: $($(#[$doc])* $case,)* }
    };
    ($store:ident, $type:ident: $($(#[$doc:meta])* $case:ident,)*) => {
        mod $store {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (url, place) = $crate::fixture::$store().await;
                let store = postrider::store::$store::$type::connect(&url).await.unwrap();
                super::$case($crate::fixture::Fixture::new(store, url).await).await;
                place.remove().await;
            })*
        }
    };
}
pub(crate) use over_every_store;

pub(crate) async fn sqlite() -> (String, Place) {
    // In memory where /dev/shm exists: a killed process loses nothing there, and these tests do not test the disk.
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = parent.join(format!("postrider-shop-{}", Uuid::new_v4()));
    std::fs::create_dir(&folder).unwrap();
    (format!("sqlite://{}", folder.join("shop.db").display()), Place::Sqlite { folder })
}

pub(crate) async fn postgres() -> (String, Place) {
    let (server, name, url) = beside(&from_environment("POSTRIDER_TEST_POSTGRES"));
    on_postgres(&server, format!("CREATE DATABASE {name} TEMPLATE template0")).await;
    (url, Place::Postgres { server, name })
}

pub(crate) async fn mysql() -> (String, Place) {
    let (server, name, url) = beside(&from_environment("POSTRIDER_TEST_MYSQL"));
    on_mysql(&server, format!("CREATE DATABASE {name}")).await;
    (url, Place::MySql { server, name })
}

/// Creates more databases on the same server.
pub(crate) async fn more_like(url: &str, count: usize) -> (Vec<String>, Vec<Place>) {
    let (mut urls, mut places) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (url, place) = match url.split(':').next().unwrap() {
            "sqlite" => sqlite().await,
            "postgres" | "postgresql" => postgres().await,
            _ => mysql().await,
        };
        urls.push(url);
        places.push(place);
    }
    (urls, places)
}

impl Place {
    /// Cleans up after a passed test.
    pub(crate) async fn remove(self) {
        match self {
            Self::Sqlite { folder } => std::fs::remove_dir_all(folder).unwrap(),
            Self::Postgres { server, name } => {
                on_postgres(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await;
            }
            Self::MySql { server, name } => on_mysql(&server, format!("DROP DATABASE {name}")).await,
        }
    }
}

async fn on_postgres(server: &str, sql: String) {
    let mut conn = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

async fn on_mysql(server: &str, sql: String) {
    let mut conn = MySqlConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// Returns the server, the name of a new database, and its URL.
fn beside(server: &str) -> (String, String, String) {
    let name = format!("shop_{}", Uuid::new_v4().simple());
    let (place, _) = server.rsplit_once('/').unwrap();
    (server.to_owned(), name.clone(), format!("{place}/{name}"))
}

/// The URL of a server. A missing one is a failure, not a skip.
fn from_environment(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `make services` and `eval \"$(scripts/services urls)\"`")
    })
}

/// A store for tests.
pub(crate) trait Tested: Database + Age {}
impl Tested for SqliteStore {}
impl Tested for PostgresStore {}
impl Tested for MySqlStore {}

/// A shop with one customer, ada, who has 10,000 cents, 500 points and a coupon.
#[derive(Clone)]
pub(crate) struct Fixture<S> {
    pub(crate) shop: Shop<S>,
    pub(crate) url: String,
}

pub(crate) fn settings() -> Settings {
    Settings { retry: RetryPolicy { jitter: 0.0, ..RetryPolicy::default() }, ..Settings::default() }
}

impl<S: Tested> Fixture<S> {
    pub(crate) async fn new(store: S, url: String) -> Self {
        Self::with(store, url, settings()).await
    }

    async fn with(store: S, url: String, settings: Settings) -> Self {
        let shop = Shop::open(store, settings).await.unwrap();
        consumers::inbox(&shop).prepare(&shop.store).await.unwrap();
        if accounts::find(&shop, "ada").await.is_err() {
            accounts::open(&shop, "ada", 10_000, 500).await.unwrap();
            accounts::give_coupon(&shop, "spring", "ada", 300).await.unwrap();
        }
        Self { shop, url }
    }

    /// The same database with other settings.
    pub(crate) async fn but(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = settings();
        change(&mut settings);
        Self::with(self.shop.store.clone(), self.url.clone(), settings).await
    }

    /// An order: 9,950 cents in money, the coupon, 2,000 cents of the wallet and 100 points.
    pub(crate) fn wanted() -> Wanted {
        Wanted {
            user_id: "ada".into(),
            amount_cents: 9_950,
            coupon_id: Some("spring".into()),
            wallet_cents: 2_000,
            points: 100,
            items: Vec::new(),
        }
    }

    /// Creates an order that waits for payment. Nothing is delivered yet.
    pub(crate) async fn check_out(&self, wanted: Wanted) -> String {
        let caller = Caller::default();
        let order = orders::create(&self.shop, &caller, wanted).await.unwrap();
        orders::checkout(&self.shop, &caller, &order.order_id).await.unwrap();
        order.order_id
    }

    pub(crate) async fn begin_payment(&self, order_id: &str) -> String {
        payments::begin(&self.shop, order_id).await.unwrap().0.payment_id
    }

    pub(crate) async fn payment_callback(&self, payment_id: &str, success: bool) -> Result<Payment, ShopError> {
        payments::callback(&self.shop, &Caller::default(), payment_id, success).await
    }

    pub(crate) async fn pay(&self, order_id: &str) {
        let payment_id = self.begin_payment(order_id).await;
        self.payment_callback(&payment_id, true).await.unwrap();
    }

    pub(crate) async fn refund_callback(&self, refund_id: &str, success: bool) -> Result<Refund, ShopError> {
        refunds::callback(&self.shop, &Caller::default(), refund_id, success).await
    }

    pub(crate) async fn cancel(&self, order_id: &str, by: By) -> Result<Order, ShopError> {
        orders::cancel(&self.shop, &Caller::default(), order_id, by).await
    }

    pub(crate) async fn order(&self, order_id: &str) -> Order {
        let mut tx = self.shop.store.begin().await.unwrap();
        orders::find::<S>(&mut tx, order_id).await.unwrap()
    }

    pub(crate) async fn refunds(&self, order_id: &str) -> Vec<Refund> {
        let mut tx = self.shop.store.begin().await.unwrap();
        refunds::of_order::<S>(&mut tx, order_id).await.unwrap()
    }

    /// The balances of ada: available and frozen, of the wallet and of the points.
    pub(crate) async fn balances(&self) -> [i64; 4] {
        let Account { wallet, points } = accounts::find(&self.shop, "ada").await.unwrap();
        [wallet.available, wallet.frozen, points.available, points.frozen]
    }

    pub(crate) async fn coupon(&self) -> String {
        accounts::find_coupon(&self.shop, "spring").await.unwrap().status
    }

    /// Delivers everything and asserts that nothing is left.
    pub(crate) async fn settle(&self) {
        let left = drain(&self.shop.store, consumers::inbox(&self.shop)).await;
        assert!(left.is_empty(), "{left:?}");
    }

    /// Delivers everything, and ages the store so that retries become due, until nothing is left.
    pub(crate) async fn settle_in_time(&self) {
        for _ in 0..30 {
            if drain(&self.shop.store, consumers::inbox(&self.shop)).await.is_empty() {
                return;
            }
            self.shop.store.age(Duration::from_secs(3_600)).await.unwrap();
        }
        panic!("some deliveries never finish");
    }

    /// Asserts that the auditor finds nothing and has checked all orders.
    pub(crate) async fn books_balance(&self) {
        let audit = audit(&self.shop).await.unwrap();
        assert!(audit.ok, "{:#?}", audit.discrepancies);
        assert_eq!(audit.in_flight, 0);
    }

    /// Ages the locks and checkouts of the shop.
    pub(crate) async fn age(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap();
        self.execute("UPDATE shop_lock SET created_at = created_at - $1", millis).await;
        self.execute("UPDATE shop_order SET checked_out_at = checked_out_at - $1", millis).await;
    }

    /// Deletes all events of a topic with their deliveries, as if they had never been written.
    pub(crate) async fn lose(&self, topic: &str) {
        const DELIVERIES: &str = "DELETE FROM postrider_delivery
            WHERE event_seq IN (SELECT seq FROM postrider_event WHERE topic = $1)";
        self.execute_text(DELIVERIES, topic).await;
        let lost = self.execute_text("DELETE FROM postrider_event WHERE topic = $1", topic).await;
        assert!(lost > 0, "there was no {topic}");
    }

    pub(crate) async fn execute(&self, sql: &'static str, value: i64) -> u64 {
        let mut tx = self.shop.store.begin().await.unwrap();
        let rows = S::execute(&mut tx, sql, &[value.into()]).await.unwrap();
        self.shop.store.commit(tx).await.unwrap();
        rows
    }

    pub(crate) async fn execute_text(&self, sql: &'static str, text: &str) -> u64 {
        let mut tx = self.shop.store.begin().await.unwrap();
        let rows = S::execute(&mut tx, sql, &[text.into()]).await.unwrap();
        self.shop.store.commit(tx).await.unwrap();
        rows
    }

    pub(crate) async fn texts(&self, sql: &'static str) -> Vec<String> {
        let mut tx = self.shop.store.begin().await.unwrap();
        S::rows(&mut tx, sql, &[]).await.unwrap().into_iter().map(|mut row| row.text().unwrap()).collect()
    }

    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        let mut tx = self.shop.store.begin().await.unwrap();
        S::row(&mut tx, sql, &[]).await.unwrap().unwrap().int().unwrap()
    }
}

/// Runs the same work concurrently.
pub(crate) async fn at_once<T, F>(times: usize, work: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(tokio::sync::Barrier::new(times));
    let tasks: Vec<_> = (0..times)
        .map(|at| {
            let (start, work) = (Arc::clone(&start), work(at));
            tokio::spawn(async move {
                start.wait().await;
                work.await
            })
        })
        .collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}
