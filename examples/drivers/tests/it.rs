//! Runs the programs in `examples/` against a database of their own, and consumes what they wrote.
#![allow(missing_docs)]

use std::process::{Command, Output};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use postrider::prelude::*;
use postrider::store::postgres::PostgresStore;
use postrider::{Failure, Inbox, OutsideConsumer, Received, Relay};
use postrider_drivers::OrderPaid;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};

/// Remembers the orders that it received.
struct Points(Arc<Mutex<Vec<i64>>>);

impl OutsideConsumer for Points {
    const NAME: &'static str = "points";
    type Event = OrderPaid;

    async fn handle(&self, paid: Received<OrderPaid>) -> Result<(), Failure> {
        self.0.lock().expect("no other test").push(paid.order_id);
        Ok(())
    }
}

/// The executable of an example.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a path");
    // target/debug/deps/it-0123456789abcdef
    let profile = test.parent().and_then(|deps| deps.parent()).expect("a folder of the profile");
    let file = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(file.exists(), "{} is not there: run `cargo build --locked --workspace --examples`", file.display());
    Command::new(file)
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

/// A.1, G.15 with a driver that Postrider does not know: the event exists if and only if the order does.
async fn writes_order_and_event_together(name: &str) {
    let server = std::env::var("POSTRIDER_TEST_POSTGRES").expect("POSTRIDER_TEST_POSTGRES is set: run `make services`");
    let server = PgConnectOptions::from_str(&server).expect("a URL");
    let database = format!("drivers_{}", uuid::Uuid::new_v4().simple());
    let mut admin = server.connect().await.expect("the server answers");
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {database}"))).execute(&mut admin).await.expect("created");
    let mut url = server.database(&database).to_url_lossy();
    url.set_query(None); // it has options that only sqlx knows
    let store = PostgresStore::connect(url.as_str()).await.expect("the database answers");
    store.migrate().await.expect("migrates");
    let table = sqlx::query("CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL)");
    table.execute(store.pool()).await.expect("created");

    let run = |order: &str, end: &str| {
        let mut program = example(name);
        program.args([url.as_str(), order, end]).output().expect("it runs")
    };
    let paid = run("7", "");
    assert!(paid.status.success(), "{}", text(&paid));
    assert_eq!(text(&paid), "order 7 is paid, and order:7:paid is written with it\n");
    let failed = run("8", "fail");
    assert!(!failed.status.success() && text(&failed).contains("neither is stored"), "{}", text(&failed));
    let again = run("7", "");
    assert!(!again.status.success() && text(&again).contains("duplicate key"), "{}", text(&again));

    let received = Arc::default();
    let inbox = || Inbox::new(store.clone()).outside(Points(Arc::clone(&received)));
    Relay::new(store.clone(), inbox()).drain().await.expect("delivers");
    Relay::new(store.clone(), inbox()).drain().await.expect("has nothing left");
    assert_eq!(*received.lock().expect("no other test"), [7]);
    let paid = store.find("order:7:paid").await.expect("reads").expect("it is stored");
    assert_eq!(paid.envelope.initiator.service.as_deref(), Some("shop"));
    assert!(paid.envelope.trace_id.is_some());
    let orders: Vec<i64> = sqlx::query_scalar("SELECT id FROM orders").fetch_all(store.pool()).await.expect("reads");
    assert_eq!(orders, [7]);

    drop(store);
    let drop = format!("DROP DATABASE {database} WITH (FORCE)");
    sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut admin).await.expect("dropped");
}

#[tokio::test]
async fn tokio_postgres_writes_order_and_event_together_on_postgres() {
    writes_order_and_event_together("tokio_postgres").await;
}

#[tokio::test]
async fn diesel_writes_order_and_event_together_on_postgres() {
    writes_order_and_event_together("diesel").await;
}

#[tokio::test]
async fn sea_orm_writes_order_and_event_together_on_postgres() {
    writes_order_and_event_together("sea_orm").await;
}
