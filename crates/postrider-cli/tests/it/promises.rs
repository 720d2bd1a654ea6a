//! The promises of a running server: what is broken by SQL is noticed within a minute, and named.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Database, Kind, Process};
use crate::{stderr, stdout};

/// One promise, once it is as wanted.
async fn promise(server: &Process, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let looked = async {
        loop {
            let answer = server.admin(Method::GET, "/promises", Value::Null, 200).await;
            let found = answer["promises"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
            if let Some(found) = found.filter(&wanted) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looked).await.unwrap_or_else(|_| panic!("{name} within a minute"))
}

async fn a_broken_promise_is_noticed(kind: Kind) {
    let database = Database::make(kind).await;
    let server = Process::start(&database, &[]);
    let publish = async |id: &str, key: &str| {
        let event = json!({ "eventId": id, "topic": "order.paid", "payload": 1, "key": key });
        server.admin(Method::POST, "/events", event, 202).await;
    };
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({ "via": "pull" }), 200).await;
    publish("first", "a").await;
    publish("second", "a").await;
    for _ in 0..2 {
        let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 1 }), 200).await;
        let delivery = &claimed["deliveries"][0];
        let settled = json!({ "results": [{
            "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"],
            "success": true,
        }] });
        server.admin(Method::POST, "/consumers/points/settle", settled, 200).await;
    }
    // After the claims, which take keys in any order: it has no attempt.
    publish("lost", "b").await;
    let lost = promise(&server, "lost", |one| one["figures"]["events"] == 3).await;
    assert_eq!((&lost["ok"], &lost["events"]), (&json!(true), &json!([])), "{lost}");

    database.run_script("DELETE FROM postrider_delivery WHERE event_seq = (SELECT seq FROM postrider_event WHERE event_id = 'lost')").await;
    let lost = promise(&server, "lost", |one| one["ok"] == false).await;
    assert_eq!(lost["events"], json!(["lost"]), "{lost}");
    assert_eq!(lost["findings"][0]["consumerId"], "points");
    assert!(lost["since"].is_string() && lost["sql"].as_str().unwrap().starts_with("SELECT"));
    assert_eq!(lost["history"].as_array().unwrap().last().unwrap()["ok"], false, "{lost}");

    // A consumer that was renamed in the code alone: its old lane has no worker.
    server.admin(Method::PUT, "/subscriptions/order.sent/old-name", json!({ "via": "local" }), 200).await;
    let event = json!({ "eventId": "waits", "topic": "order.sent", "payload": 1 });
    server.admin(Method::POST, "/events", event, 202).await;
    let stuck = promise(&server, "stuck", |one| one["events"] == json!(["waits"])).await;
    assert_eq!((&stuck["ok"], &stuck["figures"]["lanes"]), (&json!(false), &json!(1)), "{stuck}");
    assert_eq!(stuck["findings"][0]["consumerId"], "old-name");

    let shown = server.run(&["promises"]);
    assert_eq!(shown.status.code(), Some(1), "{}", stderr(&shown));
    assert!(stdout(&shown).contains("the delivery of lost to points is gone"), "{}", stdout(&shown));
    assert!(stderr(&shown).contains("broken: lost, stuck"), "{}", stderr(&shown));
    let lines = stdout(&server.run(&["promises", "-o", "jsonl"]));
    assert_eq!(lines.lines().count(), 4, "{lines}");

    // Mended: sent again, and served.
    server.admin(Method::POST, "/events/lost/redrive", json!({ "consumerId": "points" }), 202).await;
    let waiting = "/subscriptions/order.sent/old-name?waiting=discard";
    server.admin(Method::DELETE, waiting, Value::Null, 204).await;
    promise(&server, "lost", |one| one["ok"] == true).await;
    promise(&server, "stuck", |one| one["events"] == json!([])).await;
    server.stop();
    database.drop().await;
}

/// G.13: `lost` and `stuck` on a running server.
#[tokio::test]
async fn a_broken_promise_is_noticed_on_sqlite() {
    a_broken_promise_is_noticed(Kind::Sqlite).await;
}

/// G.13
#[tokio::test]
async fn a_broken_promise_is_noticed_on_postgres() {
    a_broken_promise_is_noticed(Kind::Postgres).await;
}

/// G.13
#[tokio::test]
async fn a_broken_promise_is_noticed_on_mysql() {
    a_broken_promise_is_noticed(Kind::MySql).await;
}
