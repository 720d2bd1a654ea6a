//! One purchase, two services: what the bus is for.

use serde_json::{Value, json};

use super::desk::{Desk, read};
use postrider::prelude::*;

/// D.1–D.7, D.10, D.12: a purchase reaches the membership and the message service, each by its own means; one of them fails and
/// tries again; each publishes what it did; and it is one trace, with every attempt.
#[tokio::test]
async fn a_purchase_reaches_two_services() {
    let desk = Desk::open().await;
    for consumer in ["member-service", "message-service"] {
        desk.subscribe("order.purchased", consumer, json!({ "via": "external" })).await;
    }
    for topic in ["points.added", "notification.sent"] {
        desk.subscribe(topic, "auditor", json!({ "via": "external" })).await;
    }
    let purchase = json!({
        "eventId": "purchase-1", "topic": "order.purchased", "traceId": "trace-1",
        "payload": { "orderId": "O-7", "userId": "user-A", "amountCents": 19900 },
        "initiator": { "service": "order-service", "operation": "confirmOrder", "userId": "user-A" },
    });
    desk.publish(purchase, 202).await;
    let mut statuses = Vec::new();
    let mut look = async || -> Value {
        // What the list says is what the detail says, as soon as the roll-up has been there.
        while desk.store.fold(500).await.unwrap().more {}
        let shown = desk.show("purchase-1").await;
        let status = shown["status"].as_str().unwrap();
        let listed =
            read(desk.get("viewer", &format!("/events?status={status}&topic=order.purchased")).await, 200).await;
        assert_eq!(listed["events"][0]["eventId"], "purchase-1", "{status}");
        statuses.push(status.to_owned());
        shown
    };
    let report = async |body: Value| desk.ask("consumer", "/events/purchase-1/consumptions", body, 201).await;
    let child = async |id: &str, topic: &str| {
        let event = json!({ "eventId": id, "topic": topic, "payload": {}, "traceId": "trace-1", "parentEventId": "purchase-1" });
        desk.publish(event, 202).await;
    };
    look().await;
    report(json!({ "consumerId": "member-service", "success": true })).await;
    child("points-1", "points.added").await;
    let shown = look().await;
    assert_eq!((&shown["consumedConsumers"], &shown["expectedConsumers"]), (&json!(1), &json!(2)));
    report(json!({ "consumerId": "message-service", "success": false, "willRetry": true, "errorMessage": "the gateway is away" })).await;
    let shown = look().await;
    assert_eq!(shown["lastError"], "the gateway is away");
    report(json!({ "consumerId": "message-service", "success": true })).await;
    child("notification-1", "notification.sent").await;
    let shown = look().await;
    assert_eq!(statuses, ["PENDING", "SENT", "RETRYING", "CONSUMED"]);

    let attempts: Vec<_> = shown["consumptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["consumerId"].as_str().unwrap(), one["attemptNo"].as_u64().unwrap(), one["success"].clone()))
        .collect();
    assert_eq!(
        attempts,
        [
            ("member-service", 0, Value::Null),
            ("member-service", 1, json!(true)),
            ("message-service", 0, Value::Null),
            ("message-service", 1, json!(false)),
            ("message-service", 2, json!(true)),
        ]
    );
    let children: Vec<_> =
        shown["children"].as_array().unwrap().iter().map(|one| one["topic"].as_str().unwrap()).collect();
    assert_eq!(children, ["points.added", "notification.sent"]);
    let trace = read(desk.get("viewer", "/traces/trace-1").await, 200).await;
    assert_eq!((trace["events"].as_array().unwrap().len(), trace["roots"].as_array().unwrap().len()), (3, 1));
    let root = &trace["roots"][0];
    assert_eq!((&root["topic"], &root["status"]), (&json!("order.purchased"), &json!("CONSUMED")));
    assert_eq!(
        (&root["children"][0]["topic"], &root["children"][1]["topic"]),
        (&json!("points.added"), &json!("notification.sent"))
    );
    let refused = desk.ask("operator", "/events/purchase-1/redrive", json!({}), 409).await;
    assert_eq!(refused["code"], "consumed");
    desk.close().await;
}

/// D.6: a service that gives up leaves the event PARTIAL; its late success completes it.
#[tokio::test]
async fn a_service_that_gives_up_leaves_it_partial() {
    let desk = Desk::open().await;
    for consumer in ["member-service", "message-service"] {
        desk.subscribe("order.purchased", consumer, json!({ "via": "external" })).await;
    }
    desk.publish(json!({ "eventId": "e", "topic": "order.purchased", "payload": 1 }), 202).await;
    let report = async |consumer: &str, success: bool| {
        let body = json!({ "consumerId": consumer, "success": success });
        desk.ask("consumer", "/events/e/consumptions", body, 201).await;
        desk.show("e").await["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(report("message-service", false).await, "PARTIAL");
    assert_eq!(report("member-service", true).await, "PARTIAL");
    let refused = desk.ask("operator", "/events/e/redrive", json!({}), 409).await;
    assert_eq!(refused["code"], "external", "nothing of ours brings it there");
    assert_eq!(report("message-service", true).await, "CONSUMED");
    assert_eq!(report("message-service", false).await, "CONSUMED", "what has happened has happened");
    desk.close().await;
}
