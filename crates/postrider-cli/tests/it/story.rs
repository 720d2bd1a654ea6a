//! One purchase, two services in other processes, and a server that keeps the books: on each store.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Database, Kind, Process};

/// D.5–D.8, D.10, D.12: the membership and the message service fetch the purchase; the message service fails, is tried again
/// by itself, gives up, is redriven alone, and succeeds; what each of them publishes is part of one tree.
async fn a_purchase(kind: Kind) {
    let database = Database::make(kind).await;
    let server = Process::start(&database, &[]);
    for consumer in ["member-service", "message-service"] {
        server.admin(Method::PUT, &format!("/subscriptions/order.purchased/{consumer}"), json!({}), 200).await;
    }
    for topic in ["points.added", "notification.sent"] {
        server.admin(Method::PUT, &format!("/subscriptions/{topic}/auditor"), json!({ "via": "external" }), 200).await;
    }
    let publish = async |event: Value| server.admin(Method::POST, "/events", event, 202).await;
    publish(
        json!({ "eventId": "purchase", "topic": "order.purchased", "payload": { "userId": "A" }, "traceId": "t1" }),
    )
    .await;
    let handle = async |consumer: &str, attempt: u32, result: Value| {
        let wanted = json!({ "max": 10, "waitSeconds": 50 });
        let claimed = server.admin(Method::POST, &format!("/consumers/{consumer}/claim"), wanted, 200).await;
        let one = &claimed["deliveries"][0];
        assert_eq!((&one["event"]["eventId"], &one["attempt"]), (&json!("purchase"), &json!(attempt)), "{claimed}");
        let mut settled = json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"] });
        settled.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
        let settled = json!({ "results": [settled] });
        server.admin(Method::POST, &format!("/consumers/{consumer}/settle"), settled, 200).await;
    };
    let stands = async |status: &str| {
        let shown = server.admin(Method::GET, "/events/purchase", Value::Null, 200).await;
        assert_eq!(shown["status"], status, "{shown}");
        // The list follows within a second, behind the roll-up that the server runs.
        let listed = async {
            let query = format!("/events?status={status}&topic=order.purchased");
            while server.admin(Method::GET, &query, Value::Null, 200).await["events"].as_array().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), listed).await.unwrap_or_else(|_| panic!("{status} is listed"));
        shown
    };
    let child = async |id: &str, topic: &str| {
        let event =
            json!({ "eventId": id, "topic": topic, "payload": {}, "traceId": "t1", "parentEventId": "purchase" });
        publish(event).await;
    };
    stands("PENDING").await;
    handle("member-service", 1, json!({ "success": true })).await;
    child("points", "points.added").await;
    stands("SENT").await;
    handle("message-service", 1, json!({ "success": false, "errorMessage": "the gateway is away" })).await;
    stands("RETRYING").await;
    handle("message-service", 2, json!({ "success": false, "willRetry": false, "errorMessage": "no such number" }))
        .await;
    stands("PARTIAL").await;
    let redrive = json!({ "consumerId": "message-service", "reason": "the number is mended" });
    server.admin(Method::POST, "/events/purchase/redrive", redrive, 202).await;
    stands("RETRYING").await;
    handle("message-service", 1, json!({ "success": true })).await;
    child("notification", "notification.sent").await;
    let shown = stands("CONSUMED").await;
    let attempts: Vec<_> = shown["consumptions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["attemptNo"] != 0)
        .map(|one| (one["consumerId"].as_str().unwrap(), one["attemptNo"].as_u64().unwrap(), one["success"].clone()))
        .collect();
    let message = |n: u64, success: bool| ("message-service", n, json!(success));
    assert_eq!(attempts, [("member-service", 1, json!(true)), message(1, false), message(2, false), message(3, true)]);
    assert_eq!((&shown["retryCount"], &shown["consumedConsumers"]), (&json!(1), &json!(2)));
    let nothing = server.admin(Method::POST, "/consumers/member-service/claim", json!({ "max": 1 }), 200).await;
    assert_eq!(nothing["deliveries"], json!([]), "who was not named got nothing");

    let trace = server.admin(Method::GET, "/traces/t1", Value::Null, 200).await;
    let ids = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one["eventId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&trace["events"]), ["purchase", "points", "notification"]);
    assert_eq!(
        (ids(&trace["roots"]), ids(&trace["roots"][0]["children"])),
        (vec!["purchase".to_owned()], vec!["points".to_owned(), "notification".to_owned()])
    );
    let instances = server.admin(Method::GET, "/instances", Value::Null, 200).await;
    assert!(instances.to_string().contains("postrider.rollup"), "{instances}");
    let stats = server.admin(Method::GET, "/stats", Value::Null, 200).await;
    let consumed: u64 = stats["minutes"].as_array().unwrap().iter().map(|one| one["consumed"].as_u64().unwrap()).sum();
    assert_eq!(consumed, 1, "{stats}");
    server.stop();
    database.drop().await;
}

#[tokio::test]
async fn a_purchase_reaches_two_services_on_sqlite() {
    a_purchase(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_purchase_reaches_two_services_on_postgres() {
    a_purchase(Kind::Postgres).await;
}

#[tokio::test]
async fn a_purchase_reaches_two_services_on_mysql() {
    a_purchase(Kind::MySql).await;
}
