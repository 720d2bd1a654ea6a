//! Limits, each at its boundary.

use reqwest::Method;
use serde_json::{Value, json};

use super::desk::{Desk, read};

/// F40, S14: payload 1 MiB, body 4 MiB.
#[tokio::test]
async fn payload_and_body_stop_at_their_size() {
    let desk = Desk::open().await;
    desk.subscribe("t", "points", json!({})).await;
    let payload = |bytes: usize| "a".repeat(bytes - 2);
    desk.publish(json!({ "topic": "t", "payload": payload(1024 * 1024) }), 202).await;
    let refused = desk.publish(json!({ "topic": "t", "payload": payload(1024 * 1024 + 1) }), 413).await;
    assert_eq!(refused["errors"][0]["field"], "payload");

    let body = |bytes: usize| {
        let head = r#"{"events":[]"#;
        format!("{head}{}}}", " ".repeat(bytes - head.len() - 1))
    };
    let send = async |body: String, expected| {
        let request = desk.request("publisher", Method::POST, "/api/v1/events/batch");
        let request = request.header("content-type", "application/json").body(body);
        read(request.send().await.unwrap(), expected).await
    };
    send(body(4 * 1024 * 1024), 200).await;
    assert_eq!(send(body(4 * 1024 * 1024 + 1), 413).await["code"], "tooLarge");
    desk.close().await;
}

/// A configuration may allow less.
#[tokio::test]
async fn a_smaller_payload_may_be_configured() {
    let desk = Desk::with(postrider_server::Options { payload_bytes: 10, ..Default::default() }).await;
    desk.subscribe("t", "points", json!({})).await;
    desk.publish(json!({ "topic": "t", "payload": "12345678" }), 202).await;
    desk.publish(json!({ "topic": "t", "payload": "123456789" }), 413).await;
    desk.close().await;
}

/// S14: JSON depth 64, batch 1,000, claim 500, page 500.
#[tokio::test]
async fn depth_batch_claim_and_page_stop_at_their_limit() {
    let desk = Desk::open().await;
    desk.subscribe("t", "points", json!({})).await;
    let deep = |levels: usize| format!(r#"{{"topic":"t","payload":{}1{}}}"#, "[".repeat(levels), "]".repeat(levels));
    let send = async |body: String, expected| {
        let request = desk.request("publisher", Method::POST, "/api/v1/events");
        let request = request.header("content-type", "application/json").body(body);
        read(request.send().await.unwrap(), expected).await
    };
    send(deep(64), 202).await;
    assert_eq!(send(deep(65), 422).await["errors"][0]["field"], "payload");
    send(deep(100_000), 422).await;
    send(format!(r#"{{"topic":"t","payload":1,"metadata":{}}}"#, "[".repeat(100_000)), 400).await;

    let batch = |events: usize| json!({ "events": vec![json!({ "topic": "t", "payload": 1 }); events] });
    desk.ask("publisher", "/events/batch", batch(1_000), 200).await;
    desk.ask("publisher", "/events/batch", batch(1_001), 413).await;

    let claim = async |body: Value, expected| desk.ask("consumer", "/consumers/points/claim", body, expected).await;
    assert_eq!(claim(json!({ "max": 500 }), 200).await["deliveries"].as_array().unwrap().len(), 500);
    for (body, field) in [
        (json!({ "max": 0 }), "max"),
        (json!({ "max": 501 }), "max"),
        (json!({ "max": 1, "leaseSeconds": 0 }), "leaseSeconds"),
        (json!({ "max": 1, "leaseSeconds": 3601 }), "leaseSeconds"),
        (json!({ "max": 1, "waitSeconds": 56 }), "waitSeconds"),
    ] {
        assert_eq!(claim(body, 422).await["errors"][0]["field"], field);
    }
    let results =
        |n: usize| json!({ "results": vec![json!({ "deliveryId": "1-1", "leaseToken": "x", "success": true }); n] });
    desk.ask("consumer", "/consumers/points/settle", results(500), 200).await;
    desk.ask("consumer", "/consumers/points/settle", results(501), 422).await;
    read(desk.get("operator", "/audit?limit=500").await, 200).await;
    read(desk.get("operator", "/audit?limit=501").await, 400).await;
    desk.close().await;
}

/// Names and ids of an event.
#[tokio::test]
async fn names_and_ids_stop_at_their_length() {
    let desk = Desk::open().await;
    desk.subscribe(&"t".repeat(128), "points", json!({})).await;
    let base = json!({ "topic": "t".repeat(128), "payload": 1 });
    for (field, most) in [("eventId", 64), ("key", 256), ("traceId", 128), ("tenantId", 128)] {
        let with = |chars: usize| {
            let mut event = base.clone();
            event[field] = "号".repeat(chars).into();
            event
        };
        desk.publish(with(most), 202).await;
        let refused = desk.publish(with(most + 1), 422).await;
        assert_eq!(refused["errors"][0]["field"], field);
    }
    desk.publish(json!({ "topic": "t".repeat(129), "payload": 1 }), 422).await;
    let metadata = |bytes: usize| {
        let mut event = base.clone();
        event["metadata"] = json!({ "m": "a".repeat(bytes - 8) });
        event
    };
    desk.publish(metadata(16 * 1024), 202).await;
    desk.publish(metadata(16 * 1024 + 1), 413).await;
    desk.close().await;
}

/// F39: odd text is kept or refused, and never a server's error; error text is cut.
#[tokio::test]
async fn odd_text_is_kept_or_refused() {
    let desk = Desk::open().await;
    desk.subscribe("t", "member", json!({ "via": "external" })).await;
    desk.publish(json!({ "eventId": "e1", "topic": "t", "payload": "\u{0}\u{ffff}🦀" }), 202).await;
    desk.publish(json!({ "topic": "t", "payload": 1, "key": "a\u{0}" }), 422).await;
    desk.publish(json!({ "topic": "t", "payload": 1, "initiator": { "service": "a\u{0}" } }), 202).await;
    let report = json!({ "consumerId": "member", "success": false, "errorMessage": "错\u{0}".repeat(2_000), "errorCode": "\u{0}" });
    desk.ask("consumer", "/events/e1/consumptions", report, 201).await;
    let shown = desk.show("e1").await;
    assert_eq!(shown["lastError"].as_str().unwrap().chars().count(), 1_000);
    let report = json!({ "consumerId": "member", "success": false, "callbackId": "\u{0}" });
    desk.ask("consumer", "/events/e1/consumptions", report, 422).await;
    desk.close().await;
}
