//! `postrider bench`, on each store.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use postrider::{Bus, Draft, Subscription, Via};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _};

use crate::process::{Database, Kind};
use crate::{postrider, stderr, stdout};

/// Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

macro_rules! on_every_store {
    ($($(#[$doc:meta])* $case:ident: $sqlite:ident, $postgres:ident, $mysql:ident;)*) => {$(
        $(#[$doc])* #[tokio::test]
        async fn $sqlite() {
            $case(Kind::Sqlite).await;
        }
        $(#[$doc])* #[tokio::test]
        async fn $postgres() {
            $case(Kind::Postgres).await;
        }
        $(#[$doc])* #[tokio::test]
        async fn $mysql() {
            $case(Kind::MySql).await;
        }
    )*};
}

on_every_store! {
    /// G.9
    a_run: a_run_prints_figures_and_leaves_nothing_on_sqlite, a_run_prints_figures_and_leaves_nothing_on_postgres,
        a_run_prints_figures_and_leaves_nothing_on_mysql;
    /// G.9
    interrupted: an_interrupted_run_leaves_nothing_on_sqlite, an_interrupted_run_leaves_nothing_on_postgres,
        an_interrupted_run_leaves_nothing_on_mysql;
    /// G.9
    beside_others: a_store_with_work_of_others_is_refused_on_sqlite,
        a_store_with_work_of_others_is_refused_on_postgres, a_store_with_work_of_others_is_refused_on_mysql;
}

async fn migrated(kind: Kind) -> Database {
    let database = Database::make(kind).await;
    let up = postrider(&["migrate", "up", "--store", &database.url]);
    assert!(up.status.success(), "{}", stderr(&up));
    database
}

/// The number of rows of a table.
async fn rows(database: &Database, table: &str) -> i64 {
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    let url = &database.url;
    match url.split(':').next() {
        Some("sqlite") => {
            let mut conn = sqlx::SqliteConnection::connect(url).await.unwrap();
            sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
        }
        Some("postgres" | "postgresql") => {
            let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
            sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
        }
        _ => {
            let mut conn = sqlx::MySqlConnection::connect(url).await.unwrap();
            sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
        }
    }
}

async fn is_empty(database: &Database) {
    for table in
        ["postrider_event", "postrider_delivery", "postrider_consumption", "postrider_inbox", "postrider_lookup"]
    {
        assert_eq!(rows(database, table).await, 0, "{table}");
    }
    assert_eq!(rows(database, "postrider_subscription WHERE NOT removed").await, 0);
}

async fn a_run(kind: Kind) {
    let database = migrated(kind).await;
    let load = ["--events", "200", "--seconds", "60", "--payload-bytes", "100", "--concurrency", "4"];
    let run = |format| postrider(&[&["bench", "--store", &database.url, "-o", format], &load[..]].concat());
    let ended = run("json");
    assert!(ended.status.success(), "{}", stderr(&ended));
    let figures: Value = serde_json::from_str(&stdout(&ended)).unwrap();
    assert_eq!((&figures["payloadBytes"], &figures["concurrency"]), (&100.into(), &4.into()));
    for part in ["enqueue", "deliver"] {
        let part = &figures[part];
        assert_eq!(part["events"], 200, "{figures:#}");
        let number = |field: &str| part[field].as_f64().unwrap();
        assert!(number("perSecond") > 0.0 && number("p50Ms") > 0.0, "{figures:#}");
        let shares = ["p50Ms", "p95Ms", "p99Ms", "maxMs"].map(number);
        assert!(shares.is_sorted(), "{figures:#}");
    }
    let bars = figures["latencies"].as_array().unwrap();
    assert_eq!(bars.iter().map(|bar| bar["deliveries"].as_u64().unwrap()).sum::<u64>(), 200);
    is_empty(&database).await;

    let ended = run("table");
    assert!(ended.status.success(), "{}", stderr(&ended));
    let picture = stdout(&ended);
    assert!(picture.contains("enqueue  200 events") && picture.contains("deliver  200 events"), "{picture}");
    assert!(picture.contains('█') && picture.lines().all(|line| line.chars().count() <= 80), "{picture}");
    is_empty(&database).await;
    database.drop().await;
}

async fn interrupted(kind: Kind) {
    let database = migrated(kind).await;
    let mut child = Command::new(env!("CARGO_BIN_EXE_postrider"))
        .args(["bench", "--store", &database.url, "--events", "1000000", "--seconds", "3600", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while rows(&database, "postrider_event").await < 50 {
        assert!(began.elapsed() < TIMEOUT && child.try_wait().unwrap().is_none(), "it writes events");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{}", stderr(&ended));
    assert!(stderr(&ended).contains("interrupted"), "{}", stderr(&ended));
    let figures: Value = serde_json::from_str(&stdout(&ended)).unwrap();
    assert_eq!(figures["enqueue"]["events"], figures["deliver"]["events"], "all were delivered");
    is_empty(&database).await;
    database.drop().await;
}

async fn beside_others(kind: Kind) {
    let database = migrated(kind).await;
    let store = postrider::store::connect(&database.url).await.unwrap();
    store.set_subscription(&Subscription::new("order.paid", "points", Via::Pull)).await.unwrap();
    let bus = Bus::new(store.clone());
    bus.publish(&[bus.prepare(Draft::json("order.paid", &7).unwrap()).unwrap()]).await.unwrap();
    let run = |more: &[&str]| postrider(&[&["bench", "--store", &database.url, "--events", "20"], more].concat());
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("1 deliveries wait in this store"), "{}", stderr(&refused));
    assert_eq!(rows(&database, "postrider_event").await, 1, "nothing was written");

    let allowed = run(&["--beside-waiting-work"]);
    assert!(allowed.status.success(), "{}", stderr(&allowed));
    let left = store.counts().await.unwrap();
    assert_eq!((left.len(), left["points"].new), (1, 1), "the work of others is as it was");
    assert_eq!(rows(&database, "postrider_event").await, 1);

    store.set_subscription(&Subscription::new("*", "archive", Via::Pull)).await.unwrap();
    let refused = run(&["--beside-waiting-work"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("archive subscribes to *"), "{}", stderr(&refused));
    database.drop().await;
}
