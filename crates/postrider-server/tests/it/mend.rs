//! What people do to events: redrive, expire and discard.

use std::time::Duration;

use postrider::redrive::RedriveRules;
use postrider::testing::Age;
use postrider_server::Options;
use serde_json::{Value, json};

use super::desk::{Desk, read};

async fn two_consumers(desk: &Desk) {
    for consumer in ["points", "mail"] {
        desk.subscribe("order.paid", consumer, json!({})).await;
    }
}

async fn publish(desk: &Desk, id: &str) {
    desk.publish(json!({ "eventId": id, "topic": "order.paid", "payload": 1 }), 202).await;
}

async fn settle(desk: &Desk, consumer: &str, result: Value) {
    let claimed = desk.claim(consumer, 1).await;
    let mut settled = json!({ "deliveryId": claimed[0]["deliveryId"], "leaseToken": claimed[0]["leaseToken"] });
    settled.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
    desk.ask("consumer", &format!("/consumers/{consumer}/settle"), json!({ "results": [settled] }), 200).await;
}

async fn ok(desk: &Desk, consumer: &str) {
    settle(desk, consumer, json!({ "success": true })).await;
}

async fn give_up(desk: &Desk, consumer: &str) {
    settle(desk, consumer, json!({ "success": false, "willRetry": false, "errorMessage": "no" })).await;
}

async fn redrive(desk: &Desk, id: &str, body: Value, expected: u16) -> Value {
    desk.ask("operator", &format!("/events/{id}/redrive"), body, expected).await
}

/// D.8: every status by the table, each refusal with its rule.
#[tokio::test]
async fn a_redrive_is_allowed_or_refused_by_the_rules() {
    let rules = RedriveRules { max_count: 2, ..RedriveRules::default() };
    let desk = Desk::with(Options { redrive: rules, ..Options::default() }).await;
    two_consumers(&desk).await;
    publish(&desk, "e").await;
    assert_eq!(redrive(&desk, "e", json!({}), 409).await["code"], "notSent");
    ok(&desk, "points").await;
    let recent = redrive(&desk, "e", json!({}), 409).await;
    assert_eq!(recent["code"], "sentRecently");
    assert!(recent["detail"].as_str().unwrap().contains("redrive.sent-older-than-seconds"), "{recent}");
    desk.store.age(Duration::from_secs(700)).await.unwrap();
    let sent = redrive(&desk, "e", json!({ "reason": "nobody answers" }), 202).await;
    assert_eq!((&sent["status"], &sent["retryCount"]), (&json!("RETRYING"), &json!(1)));
    let held = desk.claim("mail", 1).await;
    assert_eq!(redrive(&desk, "e", json!({}), 409).await["code"], "inProgress");
    let result = json!({ "deliveryId": held[0]["deliveryId"], "leaseToken": held[0]["leaseToken"], "success": false, "willRetry": false });
    desk.ask("consumer", "/consumers/mail/settle", json!({ "results": [result] }), 200).await;
    assert_eq!(desk.show("e").await["status"], "PARTIAL");
    assert_eq!(redrive(&desk, "e", json!({}), 202).await["retryCount"], 2);
    let limit = redrive(&desk, "e", json!({}), 409).await;
    assert_eq!(limit["code"], "redriveLimit");
    assert!(limit["detail"].as_str().unwrap().contains("redrive.max-count"), "{limit}");
    assert!(desk.claim("points", 1).await.is_empty(), "who has had it does not get it again");
    ok(&desk, "mail").await;
    assert_eq!(desk.show("e").await["status"], "CONSUMED");
    publish(&desk, "done").await;
    ok(&desk, "points").await;
    ok(&desk, "mail").await;
    assert_eq!(redrive(&desk, "done", json!({}), 409).await["code"], "consumed");

    publish(&desk, "old").await;
    give_up(&desk, "points").await;
    give_up(&desk, "mail").await;
    desk.store.age(Duration::from_secs(8 * 86_400)).await.unwrap();
    assert_eq!(redrive(&desk, "old", json!({}), 409).await["code"], "redriveHorizon");
    redrive(&desk, "unknown", json!({}), 404).await;
    redrive(&desk, "e", json!({ "consumerId": "a b" }), 422).await;
    let audit = read(desk.get("operator", "/audit?limit=500").await, 200).await;
    let reasons: Vec<_> =
        audit["records"].as_array().unwrap().iter().filter_map(|one| one["reason"].as_str()).collect();
    assert!(reasons.contains(&"nobody answers"), "{reasons:?}");
    desk.close().await;
}

/// D.8: one consumer only, also one that came later.
#[tokio::test]
async fn a_redrive_reaches_only_the_named_consumer() {
    let desk = Desk::open().await;
    two_consumers(&desk).await;
    publish(&desk, "e").await;
    give_up(&desk, "points").await;
    give_up(&desk, "mail").await;
    assert_eq!(desk.show("e").await["status"], "FAILED");
    redrive(&desk, "e", json!({ "consumerId": "mail" }), 202).await;
    assert!(desk.claim("points", 1).await.is_empty());
    ok(&desk, "mail").await;
    assert_eq!(desk.show("e").await["status"], "PARTIAL");
    assert_eq!(redrive(&desk, "e", json!({ "consumerId": "mail" }), 409).await["code"], "consumed");
    assert_eq!(redrive(&desk, "e", json!({ "consumerId": "late" }), 409).await["code"], "unknownConsumer");
    desk.subscribe("order.paid", "late", json!({})).await;
    redrive(&desk, "e", json!({ "consumerId": "late" }), 202).await;
    assert!(desk.claim("points", 1).await.is_empty());
    assert_eq!(desk.claim("late", 1).await[0]["event"]["eventId"], "e");
    desk.close().await;
}

/// D.9: expired by hand or by time, it is neither delivered nor redriven; consumed, it does not expire.
#[tokio::test]
async fn an_expired_event_is_left_alone() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    publish(&desk, "e").await;
    let expired = desk.ask("operator", "/events/e/expire", json!({ "reason": "a mistake" }), 202).await;
    assert_eq!(expired["status"], "EXPIRED");
    assert!(desk.claim("points", 1).await.is_empty());
    assert_eq!(redrive(&desk, "e", json!({}), 409).await["code"], "expired");
    publish(&desk, "done").await;
    ok(&desk, "points").await;
    assert_eq!(desk.ask("operator", "/events/done/expire", json!({}), 409).await["code"], "consumed");
    desk.ask("operator", "/events/unknown/expire", json!({}), 404).await;
    desk.close().await;
}

/// One consumer's delivery is given up with a reason, which the history and the audit keep.
#[tokio::test]
async fn a_discarded_delivery_has_its_reason() {
    let desk = Desk::open().await;
    two_consumers(&desk).await;
    publish(&desk, "e").await;
    let discard = async |id: &str, body: Value, expected| {
        desk.ask("operator", &format!("/events/{id}/discard"), body, expected).await
    };
    let held = desk.claim("mail", 1).await;
    let wanted = json!({ "consumerId": "mail", "reason": "the address is gone" });
    let discarded = discard("e", wanted.clone(), 202).await;
    assert_eq!((&discarded["status"], &discarded["failedConsumers"]), (&json!("PARTIAL"), &json!(1)));
    let result = json!({ "deliveryId": held[0]["deliveryId"], "leaseToken": held[0]["leaseToken"], "success": true });
    let settled = desk.ask("consumer", "/consumers/mail/settle", json!({ "results": [result] }), 200).await;
    assert_eq!(settled["results"][0]["outcome"], "leaseLost");
    let attempt = &desk.show("e").await["consumptions"][1];
    assert_eq!((&attempt["errorMessage"], &attempt["errorCode"]), (&json!("the address is gone"), &json!("discarded")));
    let audit = read(desk.get("operator", "/audit?action=POST%20/api/v1/events/%7BeventId%7D/discard&limit=1").await, 200).await;
    let record = &audit["records"][0];
    assert_eq!(record["action"], "POST /api/v1/events/{eventId}/discard");
    assert_eq!((&record["detail"], &record["reason"]), (&json!("consumer=mail"), &json!("the address is gone")));

    ok(&desk, "points").await;
    let points = json!({ "consumerId": "points", "reason": "too late" });
    assert_eq!(discard("e", points, 409).await["code"], "consumed");
    assert_eq!(discard("e", wanted.clone(), 409).await["code"], "notWaiting");
    discard("unknown", wanted, 404).await;
    for (body, field) in [
        (json!({ "consumerId": "mail" }), "reason"),
        (json!({ "consumerId": "mail", "reason": "" }), "reason"),
        (json!({ "consumerId": "mail", "reason": " " }), "reason"),
        (json!({ "consumerId": "mail", "reason": "x".repeat(1_001) }), "reason"),
        (json!({ "consumerId": "no name", "reason": "x" }), "consumerId"),
    ] {
        let refused = discard("e", body, 422).await;
        assert!(refused["detail"].as_str().unwrap().contains(field), "{refused}");
    }
    assert_eq!(redrive(&desk, "e", json!({ "consumerId": "mail" }), 202).await["status"], "RETRYING");
    assert_eq!(desk.claim("mail", 1).await.len(), 1);
    desk.close().await;
}
