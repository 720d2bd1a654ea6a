//! What the OpenAPI document promises, thrown at a server: no 5xx, no answer that is not documented.

use std::process::Command;

use reqwest::Method;
use serde_json::json;

use crate::process::{Database, Kind, Process};

/// G.7, F19, F39: a hostile caller gets nothing but documented answers.
async fn keeps_its_promises(kind: Kind) {
    let database = Database::make(kind).await;
    let limits = ["limits.requests-per-second=1000000", "limits.wait-seconds=0"];
    let server = Process::start(&database, &["--set", limits[0], "--set", limits[1]]);
    // Something to find, so that more than 404 is seen.
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
    server.admin(Method::POST, "/events", json!({ "eventId": "e1", "topic": "order.paid", "payload": 1 }), 202).await;
    let operation = json!({ "kind": "redrive", "filter": {}, "reason": "to be found" });
    server.admin(Method::POST, "/operations", operation, 202).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/schemathesis");
    let output = Command::new(script)
        .args([&server.url, server.token(), "--max-examples", "25", "--seed", "7", "--generation-database", "none"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    let failures = log.lines().filter(|line| line.contains("a request failed")).collect::<Vec<_>>().join("\n");
    assert!(output.status.success(), "{said}\n{}\n{failures}", String::from_utf8_lossy(&output.stderr));
    // What is refused at the door tells nothing of what is behind it.
    for warning in ["Rate limited", "authentication"] {
        assert!(!said.contains(warning), "{said}");
    }
    server.stop();
    database.drop().await;
}

#[tokio::test]
async fn the_server_keeps_its_promises_on_sqlite() {
    keeps_its_promises(Kind::Sqlite).await;
}

#[tokio::test]
async fn the_server_keeps_its_promises_on_postgres() {
    keeps_its_promises(Kind::Postgres).await;
}
