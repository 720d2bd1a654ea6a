//! `postrider serve --broker`, as a process, with a virtual host of its own.

use std::time::Duration;

use postrider_proof::broker::VirtualHost;
use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Database, Kind, Process};

/// Reads an event until it is as wanted.
async fn until(server: &Process, event: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut shown = Value::Null;
    let reading = async {
        loop {
            shown = server.admin(Method::GET, &format!("/events/{event}"), Value::Null, 200).await;
            if wanted(&shown) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(60), reading).await.is_err() {
        panic!("{shown}");
    }
    shown
}

fn queues(listed: &str) -> Vec<String> {
    let listed: Vec<Value> = serde_json::from_str(listed).unwrap();
    listed.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// D.2, D.3, D.11: with a broker, `rabbitmq` is the default. The queue is there when the subscription is set, an event goes
/// into it, and an event that nobody has subscribed to is skipped, as without a broker.
#[tokio::test]
async fn a_broker_carries_what_is_subscribed_on_rabbitmq() {
    let (database, host) = (Database::make(Kind::Sqlite).await, VirtualHost::fresh().await);
    let policy = ["--set", "outbox.max-retry-count=3"];
    let server = Process::start(&database, &[&["--broker", host.url()], &policy[..]].concat());
    let event = |id: &str| json!({ "eventId": id, "topic": "order.paid", "payload": 1 });
    let skipped = server.admin(Method::POST, "/events", event("unheard"), 200).await;
    assert_eq!(skipped["outcome"], "skipped", "{skipped}");
    server.admin(Method::GET, "/events/unheard", Value::Null, 404).await;

    let set = server.admin(Method::PUT, "/subscriptions/order.paid/member", json!({}), 200).await;
    assert_eq!((&set["via"], &set["problem"]), (&json!("rabbitmq"), &Value::Null));
    let mut made = queues(&host.list("queues").await);
    made.retain(|name| !name.starts_with("postrider.receipts"));
    made.sort();
    let expected = ["", ".dead", ".retry.2", ".retry.4"];
    assert_eq!(made, expected.map(|end| format!("postrider.member{end}")));
    server.admin(Method::POST, "/events", event("e"), 202).await;
    let sent = until(&server, "e", |shown| shown["status"] == "SENT").await;
    assert_eq!(sent["lastError"], Value::Null, "{sent}");

    let missing = json!({ "exchange": "billing" });
    let set = server.admin(Method::PUT, "/subscriptions/order.sent/member", missing, 200).await;
    assert!(set["problem"].as_str().unwrap().contains("billing"), "{set}");
    let listed = async {
        loop {
            let listed = server.admin(Method::GET, "/subscriptions?topic=order.sent", Value::Null, 200).await;
            if listed["subscriptions"][0]["problem"].as_str().is_some_and(|problem| problem.contains("billing")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), listed).await.expect("the problem is listed");

    let consumers = server.admin(Method::GET, "/consumers", Value::Null, 200).await;
    let config = server.admin(Method::GET, "/config", Value::Null, 200).await.to_string();
    assert!(!config.contains("guest:guest"), "{config}");
    assert_eq!(consumers["consumers"][0]["lag"], Value::Null, "what a broker brings does not wait here");
    server.stop();
    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    let problems = log.lines().filter(|line| line.contains("a subscription cannot be bound")).count();
    assert_eq!(problems, 1, "told once: {log}");
    host.remove().await;
    database.drop().await;
}

/// S21, A.17: a message that the broker returns is not logged with its payload, whatever is logged. It is tried as often as
/// configured.
#[tokio::test]
async fn no_payload_of_rabbitmq_is_in_the_log() {
    let (database, host) = (Database::make(Kind::Sqlite).await, VirtualHost::fresh().await);
    let twice = ["--set", "outbox.max-retry-count=2", "--set", "outbox.backoff-cap-seconds=1"];
    let server = Process::start_with_log(&database, &[&["--broker", host.url()], &twice[..]].concat(), Some("trace"));
    // Bound elsewhere: what goes to our exchange comes back.
    let elsewhere = json!({ "exchange": "amq.topic" });
    server.admin(Method::PUT, "/subscriptions/order.paid/member", elsewhere, 200).await;
    let event = json!({ "eventId": "returned", "topic": "order.paid", "payload": { "secret": "canary-in-a-mine" } });
    server.admin(Method::POST, "/events", event, 202).await;
    let shown = until(&server, "returned", |shown| shown["deliveries"][0]["status"] == "DEAD").await;
    assert_eq!(shown["deliveries"][0]["attempts"], 2, "{shown}");
    let error = shown["lastError"].as_str().unwrap();
    assert!(error.contains("NO_ROUTE") && error.contains("postrider.events"), "{error}");
    server.stop();
    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    let line = log.lines().find(|line| line.contains("failed, will be tried again")).unwrap();
    for part in ["returned", "postrider.events", "order.paid", "NO_ROUTE"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(log.contains(" DEBUG "), "everything is logged");
    let canary = "canary-in-a-mine";
    let bytes = canary.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    let told: Vec<_> = log.lines().filter(|line| line.contains(canary) || line.contains(&bytes)).collect();
    assert!(told.is_empty(), "{told:?}");
    host.remove().await;
    database.drop().await;
}
