//! Subscriptions, changed at run time.

use reqwest::Method;
use serde_json::{Value, json};

use super::desk::{Desk, read};

/// D.2
#[tokio::test]
async fn a_subscription_is_set_listed_and_removed() {
    let desk = Desk::open().await;
    let set = async |path: &str, body: Value, expected| {
        let path = format!("/api/v1/subscriptions/{path}");
        read(desk.request("admin", Method::PUT, &path).json(&body).send().await.unwrap(), expected).await
    };
    let made = set("order.paid/points", json!({ "sortOrder": 2, "description": "积分" }), 200).await;
    assert_eq!((&made["via"], &made["enabled"], &made["description"]), (&json!("pull"), &json!(true), &json!("积分")));
    set("order.paid/member", json!({ "via": "external", "sortOrder": 1 }), 200).await;
    set("*/audit", json!({ "via": "pull", "enabled": false }), 200).await;
    let listed = read(desk.get("viewer", "/subscriptions").await, 200).await;
    let names = |listed: &Value| -> Vec<String> {
        let all = listed["subscriptions"].as_array().unwrap().iter();
        all.map(|one| one["consumerId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&listed), ["audit", "member", "points"]);
    let of_topic = read(desk.get("viewer", "/subscriptions?topic=order.paid").await, 200).await;
    assert_eq!(names(&of_topic), ["member", "points"]);

    let remove = async || {
        let path = "/api/v1/subscriptions/order.paid/points";
        desk.request("admin", Method::DELETE, path).send().await.unwrap()
    };
    read(remove().await, 204).await;
    read(remove().await, 404).await;
    for (path, body, field) in [
        ("a%20b/points", json!({}), "topic"),
        ("order.paid/postrider-x", json!({}), "consumer"),
        ("order.paid/rabbitmq", json!({}), "consumer"),
        ("order.paid/hook", json!({ "via": "webhook" }), "endpoint"),
        ("order.paid/points", json!({ "via": "pigeon" }), "via"),
    ] {
        let refused = set(path, body, 422).await;
        assert_eq!(refused["errors"][0]["field"], field, "{path}");
    }
    let unsigned = set("order.paid/hook", json!({ "endpoint": "https://example.org/hook" }), 409).await;
    assert_eq!(unsigned["code"], "webhookSecretMissing");
    desk.close().await;
}

/// D.2: left out, `via` is what the server can do.
#[tokio::test]
async fn how_a_consumer_gets_its_events_follows_from_what_there_is() {
    // Nothing listens there: the subscription is stored all the same.
    let broker = postrider::RabbitMq::new("amqp://guest:guest@127.0.0.1:1/%2f").unwrap();
    let broker = Some(broker.reconciler(postrider::store::memory::MemoryStore::new()));
    let options = postrider_server::Options { broker, webhooks: true, ..Default::default() };
    let desk = Desk::with(options).await;
    desk.subscribe("order.paid", "queue", json!({})).await;
    desk.subscribe("order.paid", "hook", json!({ "endpoint": "https://example.org/hook" })).await;
    desk.subscribe("order.paid", "pull", json!({ "via": "pull" })).await;
    let listed = read(desk.get("viewer", "/subscriptions").await, 200).await;
    let vias: Vec<_> = listed["subscriptions"].as_array().unwrap().iter().map(|one| one["via"].clone()).collect();
    assert_eq!(vias, ["webhook", "pull", "rabbitmq"]);
    let set = desk.request("admin", Method::PUT, "/api/v1/subscriptions/order.paid/queue").json(&json!({}));
    let set = read(set.send().await.unwrap(), 200).await;
    assert!(set["problem"].as_str().unwrap().contains("the broker is unreachable"), "{set}");
    desk.close().await;
}
