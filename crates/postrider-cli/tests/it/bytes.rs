//! Memory follows bytes, not rows: 400 events of 1 MiB on each way to a consumer, with the real executable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::prelude::*;
use postrider::store::sqlite::SqliteStore;
use postrider::{Failure, Inbox, OutsideConsumer, RawEvent, Received, Relay};
use postrider_proof::broker::VirtualHost;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::process::{Database, Kind, Process};

const EVENTS: usize = 400;
/// The limit of F59.
const MEMORY_MIB: u64 = 256;
const PATIENCE: Duration = Duration::from_secs(180);

/// Writes the events by plain SQL, of any size that a program may write.
async fn write_events(database: &Database) {
    let payload = match database.url.split(':').next() {
        Some("sqlite") => "'\"' || replace(hex(zeroblob(524287)), '0', 'x') || '\"'",
        Some("postgres") => "'\"' || repeat('x', 1048574) || '\"'",
        _ => "CONCAT('\"', REPEAT('x', 1048574), '\"')",
    };
    for n in 0..EVENTS {
        let values = format!("('e{n}', 'order.paid', {payload})");
        database.run_script(&format!("INSERT INTO postrider_event (event_id, topic, payload) VALUES {values}")).await;
    }
}

/// Prints the most memory that a way has taken, and holds it to the limit.
#[expect(clippy::print_stdout, reason = "the figures are for people who read the test's output")]
fn measure(way: &str, memory: u64) {
    println!("F59: {EVENTS} events of 1 MiB by {way}: {memory} MiB at most");
    assert!(memory <= MEMORY_MIB, "{way}: {memory} MiB");
}

async fn by_pull(kind: Kind, way: &str) {
    let database = Database::make(kind).await;
    let server = Process::start(&database, &[]);
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
    write_events(&database).await;
    let mut taken = 0;
    while taken < EVENTS {
        let ask = json!({ "max": 500, "waitSeconds": 30 });
        let claimed = server.admin(Method::POST, "/consumers/points/claim", ask, 200).await;
        let claimed = claimed["deliveries"].as_array().unwrap();
        assert!(!claimed.is_empty(), "{taken} were taken");
        let bytes: usize = claimed.iter().map(|one| one["event"]["payload"].as_str().unwrap().len()).sum();
        assert!(bytes <= 8 << 20, "{bytes}");
        taken += claimed.len();
        let done =
            |one: &Value| json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "success": true });
        let results: Vec<_> = claimed.iter().map(done).collect();
        let settled = server.admin(Method::POST, "/consumers/points/settle", json!({ "results": results }), 200).await;
        assert!(settled["results"].as_array().unwrap().iter().all(|one| one["outcome"] == "settled"), "{settled}");
    }
    measure(way, server.peak_memory_mib());
    server.stop();
    database.drop().await;
}

/// F59, F40, S14
#[tokio::test(flavor = "multi_thread")]
async fn pulling_large_events_takes_little_memory() {
    by_pull(Kind::Sqlite, "pull (SQLite)").await;
}

/// F59
#[tokio::test(flavor = "multi_thread")]
async fn pulling_large_events_from_postgres_takes_little_memory() {
    by_pull(Kind::Postgres, "pull (PostgreSQL)").await;
}

/// F59
#[tokio::test(flavor = "multi_thread")]
async fn pulling_large_events_from_mysql_takes_little_memory() {
    by_pull(Kind::MySql, "pull (MariaDB)").await;
}

/// Reads one call and answers it. Returns whether there was one.
async fn answer(mut stream: TcpStream) -> bool {
    let (mut bytes, mut head) = (Vec::new(), None);
    loop {
        let mut some = vec![0; 1 << 16];
        let Ok(n @ 1..) = stream.read(&mut some).await else { return false };
        bytes.extend_from_slice(&some[..n]);
        head = head.or_else(|| bytes.windows(4).position(|four| four == b"\r\n\r\n"));
        let Some(end) = head else { continue };
        let text = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if bytes.len() >= end + 4 + length.parse::<usize>().unwrap() {
            let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            return stream.write_all(answer).await.is_ok();
        }
    }
}

/// F59
#[tokio::test(flavor = "multi_thread")]
async fn calling_webhooks_with_large_events_takes_little_memory() {
    let database = Database::make(Kind::Sqlite).await;
    let secret = format!("webhook.secret=whsec_{}", crate::webhooks::SECRET);
    let server = Process::start(&database, &["--set", &secret, "--set", "webhook.allow-hosts=127.0.0.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/hook", listener.local_addr().unwrap());
    server.admin(Method::PUT, "/subscriptions/order.paid/mailer", json!({ "endpoint": endpoint }), 200).await;
    write_events(&database).await;
    let receiving = async {
        let mut called = 0;
        while called < EVENTS {
            called += usize::from(answer(listener.accept().await.unwrap().0).await);
        }
    };
    tokio::time::timeout(PATIENCE, receiving).await.expect("every event is sent");
    measure("webhook", server.peak_memory_mib());
    server.stop();
    database.drop().await;
}

/// F59
#[tokio::test(flavor = "multi_thread")]
async fn publishing_large_events_to_rabbitmq_takes_little_memory() {
    let (database, host) = (Database::make(Kind::Sqlite).await, VirtualHost::fresh().await);
    let server = Process::start(&database, &["--broker", host.url()]);
    server.admin(Method::PUT, "/subscriptions/order.paid/member", json!({ "via": "rabbitmq" }), 200).await;
    write_events(&database).await;
    let sent = async {
        while server.admin(Method::GET, "/events?status=PENDING&limit=1", Value::Null, 200).await["events"] != json!([])
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, sent).await.expect("every event is published");
    measure("broker", server.peak_memory_mib());
    server.stop();
    database.drop().await;
}

/// Counts what it gets, and stops the relay after the last.
struct Archive(Arc<AtomicUsize>, Arc<tokio::sync::Notify>);

impl OutsideConsumer for Archive {
    const NAME: &'static str = "archive";
    const TOPICS: &'static [&'static str] = &["order.paid"];
    type Event = RawEvent;

    async fn handle(&self, event: Received<RawEvent>) -> Result<(), Failure> {
        assert_eq!(event.payload.len(), 1 << 20);
        if self.0.fetch_add(1, Ordering::Relaxed) + 1 == EVENTS {
            self.1.notify_one();
        }
        Ok(())
    }
}

/// F59: a process of its own, since its memory is measured: the test starts itself.
#[tokio::test(flavor = "multi_thread")]
async fn consuming_large_events_in_process_takes_little_memory() {
    const CHILD: &str = "POSTRIDER_BYTES_CHILD";
    if let Ok(url) = std::env::var(CHILD) {
        let store = SqliteStore::connect(&url).await.unwrap();
        let (count, last) = (Arc::default(), Arc::new(tokio::sync::Notify::new()));
        let inbox = Inbox::new(store.clone()).outside(Archive(count, Arc::clone(&last)));
        Relay::new(store, inbox).run(async move { last.notified().await }).await.unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        measure("inbox", peak.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024);
        return;
    }
    let database = Database::make(Kind::Sqlite).await;
    SqliteStore::connect(&database.url).await.unwrap().migrate().await.unwrap();
    write_events(&database).await;
    let name = "bytes::consuming_large_events_in_process_takes_little_memory";
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture"]).env(CHILD, &database.url).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, child.status()).await.expect("it ends by itself").unwrap();
    assert!(ended.success());
    database.drop().await;
}
