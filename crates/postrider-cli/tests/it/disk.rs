//! What becomes of the database file: removed, replaced, on a full disk, and whose it is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Database, Kind, Process};

/// Publishes one event. Returns its status and the code of the problem.
async fn publish(server: &Process, id: &str, payload: &str) -> (u16, Option<String>) {
    let request = server.client.post(format!("{}/api/v1/events", server.url)).bearer_auth(server.token());
    let event = json!({ "eventId": id, "topic": "order.paid", "payload": payload });
    let response = request.json(&event).send().await.unwrap();
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    (status, body["code"].as_str().map(str::to_owned))
}

async fn start(database: &Database) -> Process {
    let server = Process::start(database, &[]);
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({ "via": "pull" }), 200).await;
    server
}

async fn stored(database: &Database, file: &str) -> BTreeSet<String> {
    use sqlx::Connection as _;
    let url = format!("sqlite://{}", database.folder().join(file).display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let ids: Vec<String> =
        sqlx::query_scalar("SELECT event_id FROM postrider_event").fetch_all(&mut connection).await.unwrap();
    ids.into_iter().collect()
}

/// F65: the file is renamed while events are published, and another one takes its place. Every event that was acknowledged is in
/// the file that was renamed, and nothing is acknowledged until that is back.
#[tokio::test]
async fn a_database_file_that_is_replaced_takes_no_events() {
    let database = Database::make(Kind::Sqlite).await;
    let server = start(&database).await;
    let (file, away) = (database.folder().join("bus.db"), database.folder().join("away.db"));
    let refused = Arc::new(AtomicBool::new(false));
    let publishing = async {
        let mut acknowledged = BTreeSet::new();
        while !refused.load(Ordering::Relaxed) {
            let id = format!("e{}", acknowledged.len());
            match publish(&server, &id, "x").await {
                (202, None) => assert!(acknowledged.insert(id)),
                (503, Some(code)) => {
                    assert_eq!(code, "storeReplaced");
                    refused.store(true, Ordering::Relaxed);
                }
                other => panic!("{other:?}"),
            }
        }
        acknowledged
    };
    let moving = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        std::fs::rename(&file, &away).unwrap();
    };
    let (acknowledged, ()) = tokio::join!(publishing, moving);
    assert!(!acknowledged.is_empty());
    server.until_readiness_is("storeReplaced").await;

    std::fs::copy(&away, &file).unwrap();
    assert_eq!(publish(&server, "copy", "x").await, (503, Some("storeReplaced".into())), "a copy is another file");
    let answer = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 1 }), 503).await;
    assert_eq!(answer["code"], "storeReplaced");
    std::fs::rename(&away, &file).unwrap();
    server.until_readiness_is("ready").await;
    assert_eq!(publish(&server, "back", "x").await, (202, None));
    let there = stored(&database, "bus.db").await;
    assert!(acknowledged.is_subset(&there) && there.contains("back") && !there.contains("copy"));

    std::fs::remove_file(&file).unwrap();
    assert_eq!(publish(&server, "gone", "x").await, (503, Some("storeReplaced".into())));
    server.until_readiness_is("storeReplaced").await;
    assert!(!file.exists(), "no empty file takes its place");
    server.stop();
    database.drop().await;
}

/// F66: the file cannot grow. Publishing and readiness say so while it lasts, and everything goes on by itself afterwards.
#[tokio::test]
async fn a_full_disk_refuses_events_until_there_is_room() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start_limited(&database, 12 * 1024);
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({ "via": "pull" }), 200).await;
    let payload = "x".repeat(500 * 1024);
    let mut acknowledged = BTreeSet::new();
    let code = loop {
        assert!(acknowledged.len() < 100, "the limit has no effect");
        let id = format!("e{}", acknowledged.len());
        match publish(&server, &id, &payload).await {
            (202, None) => assert!(acknowledged.insert(id)),
            (503, Some(code)) => break code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, "storeFull");
    server.until_readiness_is("storeFull").await;
    assert_eq!(publish(&server, "full", &payload).await.0, 503, "while it lasts");
    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    assert!(log.contains("free some space"), "{log}");

    server.lift_limit();
    server.until_readiness_is("ready").await;
    assert_eq!(publish(&server, "healed", &payload).await, (202, None));
    server.kill();
    let there = stored(&database, "bus.db").await;
    assert!(acknowledged.is_subset(&there) && there.contains("healed") && !there.contains("full"), "{there:?}");
    database.drop().await;
}

/// S22: the database, its log and its folder can be read by their owner only.
#[cfg(unix)]
#[tokio::test]
async fn the_database_belongs_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let database = Database::make(Kind::Sqlite).await;
    let folder = database.folder().join("data/postrider");
    let nested = Database::at(format!("sqlite://{}/bus.db", folder.display()), database.folder());
    let server = start(&nested).await;
    publish(&server, "e", "x").await;
    let mode = |name: &str| std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("."), mode("..")), (0o700, 0o700));
    for name in ["bus.db", "bus.db-wal", "bus.db-shm"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    server.stop();
    database.drop().await;
}
