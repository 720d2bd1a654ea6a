//! Runs the program of docs/getting-started.md, kills it, starts it again and stops it.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{AssertSqlSafe, ConnectOptions};

/// The service as a process, and the URL of its order 7.
fn start(database: &str) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_postrider-axum"))
        .envs([("DATABASE_URL", database), ("LISTEN", "127.0.0.1:0")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening on ").expect("its address");
    (child, format!("http://{address}/orders"))
}

async fn pay(orders: &str, order: i64) -> String {
    let answer = reqwest::Client::new().post(format!("{orders}/{order}/pay")).send().await.expect("it answers");
    assert!(answer.status().is_success(), "{}", answer.status());
    answer.text().await.expect("a text")
}

/// Waits until the orders are counted, and returns how often each coupon was used.
async fn coupons(pool: &PgPool, orders: i64) -> Vec<(i64, i64)> {
    let began = Instant::now();
    loop {
        let counted: i64 = sqlx::query_scalar("SELECT orders FROM figures").fetch_one(pool).await.expect("figures");
        let coupons = sqlx::query_as("SELECT order_id, used FROM coupons ORDER BY order_id");
        let coupons: Vec<_> = coupons.fetch_all(pool).await.expect("coupons");
        if counted == orders && coupons.len() as i64 == orders {
            return coupons;
        }
        // A delivery that was in work when the process was killed waits for its lease, 30 seconds.
        assert!(began.elapsed() < Duration::from_secs(60), "{counted} orders are counted: {coupons:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A.1, A.6, A.14, G.4: each payment has its effects once, whether the request is repeated or the process is killed; and
/// SIGTERM ends it in order.
#[tokio::test]
async fn the_program_of_the_first_page_works_on_postgres() {
    let server = std::env::var("POSTRIDER_TEST_POSTGRES").expect("POSTRIDER_TEST_POSTGRES is set: run `make services`");
    let server = PgConnectOptions::from_str(&server).expect("a URL");
    let name = format!("axum_{}", uuid::Uuid::new_v4().simple());
    let mut admin = server.connect().await.expect("the server answers");
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut admin).await.expect("created");
    let database = server.database(&name);
    let url = database.to_url_lossy().to_string();
    let pool = PgPool::connect_with(database).await.expect("the database answers");

    let (mut service, orders) = start(&url);
    assert_eq!(pay(&orders, 7).await, "paid\n");
    assert_eq!(pay(&orders, 7).await, "was paid before\n");
    assert_eq!(coupons(&pool, 1).await, [(7, 1)]);

    pay(&orders, 8).await;
    service.kill().expect("killed");
    service.wait().expect("it has ended");
    let (mut service, orders) = start(&url);
    pay(&orders, 9).await;
    assert_eq!(coupons(&pool, 3).await, [(7, 1), (8, 1), (9, 1)]);

    let signal = Command::new("kill").args(["-TERM", &service.id().to_string()]).status().expect("kill runs");
    assert!(signal.success());
    assert!(service.wait().expect("it ends").success(), "SIGTERM is a normal end");
    pool.close().await;
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut admin).await.expect("dropped");
}
