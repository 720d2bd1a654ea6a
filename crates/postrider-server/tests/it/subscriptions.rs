//! Subscriptions, changed at run time.

use std::time::Duration;

use postrider::prelude::*;
use postrider::testing::Age;
use postrider::{Subscription, Via};
use postrider_server::Options;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::desk::{Desk, read};

async fn put(desk: &Desk, path: &str, body: Value, expected: u16) -> Value {
    let path = format!("/api/v1/subscriptions/{path}");
    read(desk.request("admin", Method::PUT, &path).json(&body).send().await.unwrap(), expected).await
}

async fn delete(desk: &Desk, path: &str, expected: u16) -> Value {
    let path = format!("/api/v1/subscriptions/{path}");
    read(desk.request("admin", Method::DELETE, &path).send().await.unwrap(), expected).await
}

async fn publish(desk: &Desk, topic: &str, ids: &[&str]) {
    for id in ids {
        desk.publish(json!({ "eventId": id, "topic": topic, "payload": 1 }), 202).await;
    }
}

async fn settle(desk: &Desk, consumer: &str, delivery: &Value, success: bool) {
    let result =
        json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "success": success });
    let path = format!("/consumers/{consumer}/settle");
    let settled = desk.ask("consumer", &path, json!({ "results": [result] }), 200).await;
    assert_eq!(settled["results"][0]["outcome"], "settled");
}

async fn report(desk: &Desk, event_id: &str, consumer: &str) {
    let body = json!({ "consumerId": consumer, "success": true });
    desk.ask("consumer", &format!("/events/{event_id}/consumptions"), body, 201).await;
}

async fn consumer(desk: &Desk, name: &str) -> Option<Value> {
    let listed = read(desk.get("viewer", "/consumers").await, 200).await;
    listed["consumers"].as_array().unwrap().iter().find(|one| one["consumerId"] == name).cloned()
}

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
    let options = Options { broker, webhooks: true, ..Default::default() };
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

/// F64: a consumer has one `via`; what waits moves with it, and the answer says how much.
#[tokio::test]
async fn what_waits_moves_with_the_via_of_its_consumer() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    desk.subscribe("order.sent", "points", json!({})).await;
    publish(&desk, "order.paid", &["paid"]).await;
    publish(&desk, "order.sent", &["sent"]).await;
    let refused = put(&desk, "order.paid/points", json!({ "via": "external" }), 409).await;
    assert_eq!(refused["code"], "secondVia");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("`pull` (order.sent)") && detail.contains("allTopics"), "{detail}");
    let both = json!({ "via": "external", "allTopics": true, "reason": "it reads our table" });
    let changed = put(&desk, "order.paid/points", both, 200).await;
    assert_eq!((&changed["moved"], &changed["waiting"]), (&json!(2), &json!(1)));
    let claim = desk.ask("consumer", "/consumers/points/claim", json!({ "max": 1 }), 409).await;
    assert_eq!(claim["code"], "notPull");
    report(&desk, "paid", "points").await;
    assert_eq!(desk.show("paid").await["status"], "CONSUMED");

    put(&desk, "order.paid/points", json!({ "via": "pull", "allTopics": true }), 200).await;
    let claimed = desk.claim("points", 10).await;
    assert_eq!((claimed.len(), &claimed[0]["event"]["eventId"]), (1, &json!("sent")), "what was not reported");
    settle(&desk, "points", &claimed[0], true).await;
    assert_eq!(desk.show("sent").await["status"], "CONSUMED");

    let audit = read(desk.get("operator", "/audit").await, 200).await;
    let details: Vec<_> =
        audit["records"].as_array().unwrap().iter().filter_map(|one| one["detail"].as_str()).collect();
    assert!(details.contains(&"enabled=true via=external allTopics=true"), "{details:?}");
    let audit = audit.to_string();
    assert!(audit.contains("\"moved\":2") && audit.contains("\"reason\":\"it reads our table\""), "{audit}");
    desk.close().await;
}

/// D.2, F64: what waits is delivered, while new events are not; the answer says how many wait.
#[tokio::test]
async fn what_waits_for_a_disabled_subscription_is_still_delivered() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    publish(&desk, "order.paid", &["a", "b"]).await;
    let disabled = put(&desk, "order.paid/points", json!({ "enabled": false }), 200).await;
    assert_eq!((&disabled["enabled"], &disabled["waiting"]), (&json!(false), &json!(2)));
    let skipped = desk.publish(json!({ "eventId": "c", "topic": "order.paid", "payload": 1 }), 200).await;
    assert_eq!(skipped["outcome"], "skipped");
    assert_eq!(desk.claim("points", 10).await.len(), 2);
    desk.close().await;
}

/// F64: a removal says how many wait, and needs a word what becomes of them. Delivered: to the end, and then the consumer is
/// gone. Discarded: each with its reason, and the audit has the number.
#[tokio::test]
async fn a_removal_needs_a_word_about_what_waits() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    desk.subscribe("order.paid", "coupon", json!({})).await;
    desk.subscribe("order.paid", "elsewhere", json!({ "via": "external" })).await;
    publish(&desk, "order.paid", &["a", "b"]).await;
    for name in ["points", "coupon", "elsewhere"] {
        let refused = delete(&desk, &format!("order.paid/{name}"), 409).await;
        assert_eq!((&refused["code"], &refused["waiting"]), (&json!("deliveriesWait"), &json!(2)), "{name}");
        assert!(refused["detail"].as_str().unwrap().contains("waiting=deliver"), "{refused}");
    }
    delete(&desk, "order.paid/points?waiting=perhaps", 400).await;
    delete(&desk, "order.paid/points?waiting=deliver", 204).await;
    delete(&desk, "order.paid/points?waiting=deliver", 404).await;
    let listed = consumer(&desk, "points").await.expect("it is listed while something waits");
    assert_eq!((&listed["removed"], &listed["lag"], &listed["topics"]), (&json!(true), &json!(2), &json!([])));
    let claimed = desk.claim("points", 1).await;
    settle(&desk, "points", &claimed[0], false).await;
    desk.store.age(Duration::from_secs(60)).await.unwrap();
    for delivery in desk.claim("points", 10).await {
        settle(&desk, "points", &delivery, true).await;
    }
    assert!(consumer(&desk, "points").await.is_none());
    desk.ask("consumer", "/consumers/points/claim", json!({ "max": 1 }), 404).await;

    delete(&desk, "order.paid/coupon?waiting=discard", 204).await;
    delete(&desk, "order.paid/elsewhere?waiting=discard", 204).await;
    assert!(consumer(&desk, "coupon").await.is_none());
    for id in ["a", "b"] {
        let shown = desk.show(id).await;
        assert_eq!((&shown["status"], &shown["deliveries"]), (&json!("PARTIAL"), &json!([])), "{shown}");
        let attempts = shown["consumptions"].as_array().unwrap();
        for name in ["coupon", "elsewhere"] {
            let last = attempts.iter().rfind(|one| one["consumerId"] == name).unwrap();
            assert_eq!(last["errorCode"], "discarded");
            assert!(last["errorMessage"].as_str().unwrap().contains("was removed"), "{last}");
        }
    }
    let audit = read(desk.get("operator", "/audit").await, 200).await.to_string();
    assert!(audit.contains("\"discarded\":2") && audit.contains("\"waiting\":2"), "{audit}");

    // D.2: a restart of the program does not bring it back.
    desk.store.register(&Subscription::new("order.paid", "points", Via::Local)).await.unwrap();
    assert_eq!(read(desk.get("viewer", "/subscriptions").await, 200).await["subscriptions"], json!([]));
    desk.close().await;
}

/// A change of what another has changed since is refused.
#[tokio::test]
async fn a_version_that_was_read_is_asked_for() {
    let desk = Desk::open().await;
    let path = "/api/v1/subscriptions/order.paid/points";
    let etag = |response: &Response| response.headers()["etag"].to_str().unwrap().to_owned();
    let send = async |method: Method, body: Value, version: &str| {
        let request = desk.request("admin", method, path).header("if-match", version);
        let request = if body.is_null() { request } else { request.json(&body) };
        request.send().await.unwrap()
    };
    let stale = read(send(Method::PUT, json!({}), "*").await, 412).await;
    assert_eq!(stale["code"], "stale");
    assert!(stale["detail"].as_str().unwrap().contains("read it again"), "{stale}");
    let made = desk.request("admin", Method::PUT, path).json(&json!({})).send().await.unwrap();
    let first = etag(&made);
    let shown = desk.request("admin", Method::GET, path).send().await.unwrap();
    assert_eq!(etag(&shown), first);
    assert_eq!(read(shown, 200).await["etag"], first);
    let listed = read(desk.get("admin", "/subscriptions").await, 200).await;
    assert_eq!(listed["subscriptions"][0]["etag"], first);

    let changed = send(Method::PUT, json!({ "ratePerSecond": 5 }), &first).await;
    let second = etag(&changed);
    assert_ne!(read(changed, 200).await["etag"], first);
    read(send(Method::PUT, json!({ "ratePerSecond": 6 }), &first).await, 412).await;
    read(send(Method::DELETE, Value::Null, &first).await, 412).await;
    // A change in the table counts too.
    let by_hand = "UPDATE postrider_subscription SET max_attempts = 3";
    let mut tx = desk.store.begin().await.unwrap();
    sqlx::query(by_hand).execute(&mut *tx).await.unwrap();
    desk.store.commit(tx).await.unwrap();
    read(send(Method::DELETE, Value::Null, &second).await, 412).await;
    let third = etag(&desk.get("admin", "/subscriptions/order.paid/points").await);
    read(send(Method::DELETE, Value::Null, &format!("\"other\", {third}")).await, 204).await;
    read(desk.get("admin", "/subscriptions/order.paid/points").await, 404).await;
    desk.close().await;
}

/// Rate and attempts of a consumer that pulls, changed while the server runs.
#[tokio::test]
async fn limits_of_a_subscription_are_kept_and_shown() {
    let desk = Desk::open().await;
    let set = put(&desk, "order.paid/points", json!({ "ratePerSecond": 1, "maxAttempts": 2 }), 200).await;
    assert_eq!(
        (&set["ratePerSecond"], &set["maxAttempts"], &set["timeoutSeconds"]),
        (&json!(1), &json!(2), &Value::Null)
    );
    for (body, field) in [
        (json!({ "ratePerSecond": 0 }), "ratePerSecond"),
        (json!({ "maxAttempts": 10_001 }), "maxAttempts"),
        (json!({ "timeoutSeconds": 5 }), "timeoutSeconds"),
        (json!({ "via": "external", "ratePerSecond": 5 }), "ratePerSecond"),
    ] {
        assert_eq!(put(&desk, "order.paid/other", body, 422).await["errors"][0]["field"], field);
    }
    publish(&desk, "order.paid", &["a", "b", "c"]).await;
    let began = std::time::Instant::now();
    for n in 0..3 {
        let body = json!({ "max": 10, "waitSeconds": 30 });
        let claimed = desk.ask("consumer", "/consumers/points/claim", body, 200).await;
        assert_eq!(claimed["deliveries"].as_array().unwrap().len(), 1, "{n}");
        settle(&desk, "points", &claimed["deliveries"][0], false).await;
    }
    assert!(began.elapsed() > Duration::from_millis(1_500), "{:?}", began.elapsed());
    put(&desk, "order.paid/points", json!({ "maxAttempts": 2 }), 200).await;
    desk.store.age(Duration::from_secs(60)).await.unwrap();
    let claimed = desk.claim("points", 10).await;
    assert_eq!(claimed.len(), 3, "without a rate");
    settle(&desk, "points", &claimed[0], false).await;
    let dead = desk.show(claimed[0]["event"]["eventId"].as_str().unwrap()).await;
    assert_eq!(dead["deliveries"][0]["status"], "DEAD", "the second attempt was the last");
    desk.close().await;
}

/// S18: what this server cannot or must not serve is refused at once; a password is for those who may set it.
#[tokio::test]
async fn what_cannot_be_served_is_refused() {
    let options = Options { webhooks: true, webhook_hosts: vec!["hooks.internal".into()], ..Options::default() };
    let desk = Desk::with(options).await;
    let missing = put(&desk, "order.paid/queue", json!({ "via": "rabbitmq" }), 409).await;
    assert_eq!(missing["code"], "brokerMissing");
    for endpoint in [
        "https://127.0.0.1/",
        "https://localhost/hook",
        "https://10.0.0.7/",
        "http://example.org/",
        "https://[::1]/",
        "x",
    ] {
        let refused = put(&desk, "order.paid/hook", json!({ "endpoint": endpoint }), 422).await;
        assert_eq!(refused["errors"][0]["field"], "endpoint", "{endpoint}");
    }
    let secret = "https://user:s3cr3t@hooks.internal/hook?a=1";
    let set = put(&desk, "order.paid/hook", json!({ "endpoint": secret, "timeoutSeconds": 5 }), 200).await;
    assert_eq!(set["endpoint"], secret);
    for path in ["/subscriptions", "/subscriptions/order.paid/hook"] {
        for role in ["viewer", "publisher", "consumer", "operator"] {
            let shown = read(desk.get(role, path).await, 200).await.to_string();
            assert!(shown.contains("https://user:***@hooks.internal/hook?a=1") && !shown.contains("s3cr3t"), "{shown}");
        }
        assert!(read(desk.get("admin", path).await, 200).await.to_string().contains("s3cr3t"));
    }
    desk.close().await;
}
