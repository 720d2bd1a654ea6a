//! Bulk operations, and what people watch.

use std::time::Duration;

use postrider::operations::Operations;
use postrider::prelude::*;
use postrider::testing::Age;
use serde_json::{Value, json};

use super::desk::{Desk, read};

async fn fold(desk: &Desk) {
    while desk.store.fold(500).await.unwrap().more {}
}

/// So many events that their consumer has given up.
async fn dead_events(desk: &Desk, count: u32) {
    desk.subscribe("order.paid", "points", json!({})).await;
    let events: Vec<_> =
        (0..count).map(|n| json!({ "eventId": format!("e{n}"), "topic": "order.paid", "payload": n })).collect();
    desk.ask("publisher", "/events/batch", json!({ "events": events }), 200).await;
    let result = |n: usize, one: &Value| {
        let error = format!("the wallet of user {n} is away");
        json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "success": false, "willRetry": false, "errorMessage": error, "errorCode": "wallet" })
    };
    let claimed = desk.claim("points", 500).await;
    let results: Vec<_> = claimed.iter().enumerate().map(|(n, one)| result(n, one)).collect();
    desk.ask("consumer", "/consumers/points/settle", json!({ "results": results }), 200).await;
    fold(desk).await;
}

async fn create(desk: &Desk, more: Value, expected: u16) -> Value {
    let mut wanted = json!({ "kind": "redrive", "filter": { "deliveryStatus": "DEAD" }, "reason": "mended" });
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    desk.ask("operator", "/operations", wanted, expected).await
}

async fn work(desk: &Desk) {
    Operations::new(desk.store.clone()).drain().await.unwrap();
}

/// D.8: in bulk by filter: counted first, then each once.
#[tokio::test]
async fn everything_that_matches_is_redriven_once() {
    let desk = Desk::open().await;
    dead_events(&desk, 30).await;
    assert_eq!(create(&desk, json!({ "dryRun": true }), 200).await, json!({ "matching": 30, "exact": true }));
    assert_eq!(desk.claim("points", 500).await.len(), 0, "a dry run does nothing");
    assert_eq!(create(&desk, json!({ "dryRun": true, "filter": { "topic": "other" } }), 200).await["matching"], 0);
    let created = create(&desk, json!({ "consumerId": "points" }), 202).await;
    let path = format!("/operations/{}", created["operationId"].as_str().unwrap());
    let before = read(desk.get("viewer", &path).await, 200).await;
    assert_eq!((&before["state"], &before["total"], &before["done"]), (&json!("RUNNING"), &json!(30), &json!(0)));
    assert_eq!((&before["requestedBy"], &before["reason"]), (&json!("operator"), &json!("mended")));
    assert_eq!(before["filter"], json!({ "deliveryStatus": "DEAD" }));
    work(&desk).await;
    let after = read(desk.get("viewer", &path).await, 200).await;
    assert_eq!((&after["state"], &after["done"], &after["failed"]), (&json!("DONE"), &json!(30), &json!(0)));
    assert!(after["finishedAt"].is_string());
    assert_eq!(desk.claim("points", 500).await.len(), 30);
    assert_eq!(desk.show("e7").await["retryCount"], 1);
    let listed = read(desk.get("viewer", "/operations?limit=1").await, 200).await;
    assert_eq!(listed["operations"][0]["operationId"], created["operationId"]);
    desk.close().await;
}

#[tokio::test]
async fn an_operation_is_paused_resumed_and_cancelled() {
    let desk = Desk::open().await;
    dead_events(&desk, 3).await;
    let created = create(&desk, json!({}), 202).await;
    let id = created["operationId"].as_str().unwrap();
    let steer = async |verb: &str, expected| {
        desk.ask("operator", &format!("/operations/{id}/{verb}"), json!({}), expected).await
    };
    assert_eq!(steer("pause", 200).await["state"], "PAUSED");
    assert_eq!(steer("pause", 200).await["state"], "PAUSED", "twice is once");
    work(&desk).await;
    assert!(desk.claim("points", 10).await.is_empty());
    assert_eq!(steer("resume", 200).await["state"], "RUNNING");
    assert_eq!(steer("cancel", 200).await["state"], "CANCELLED");
    work(&desk).await;
    assert!(desk.claim("points", 10).await.is_empty());
    let refused = steer("resume", 409).await;
    assert_eq!(
        (&refused["code"], &refused["detail"]),
        (&json!("operationState"), &json!("it is CANCELLED, and cannot become RUNNING"))
    );
    desk.ask("operator", "/operations/unknown/pause", json!({}), 404).await;
    read(desk.get("viewer", "/operations/unknown").await, 404).await;
    desk.close().await;
}

#[tokio::test]
async fn an_invalid_operation_is_refused() {
    let desk = Desk::open().await;
    for (more, field) in [
        (json!({ "reason": null }), "reason"),
        (json!({ "reason": "" }), "reason"),
        (json!({ "ratePerSecond": 0 }), "ratePerSecond"),
        (json!({ "consumerId": "a b" }), "consumerId"),
        (json!({ "filter": { "status": "DONE" } }), "status"),
        (json!({ "filter": { "colour": "red" } }), "filter.colour"),
        (json!({ "kind": "expire" }), "kind"),
    ] {
        let refused = create(&desk, more.clone(), 422).await;
        assert_eq!(refused["errors"][0]["field"], field, "{more}: {refused}");
    }
    desk.close().await;
}

/// Failures by kind, consumers with what waits, figures, and who holds what.
#[tokio::test]
async fn what_goes_wrong_is_seen() {
    let desk = Desk::open().await;
    dead_events(&desk, 5).await;
    desk.publish(json!({ "eventId": "held", "topic": "order.paid", "payload": 1 }), 202).await;
    desk.publish(json!({ "eventId": "waits", "topic": "order.paid", "payload": 1 }), 202).await;
    desk.store.age(Duration::from_secs(90)).await.unwrap();
    assert_eq!(desk.claim("points", 1).await.len(), 1);
    fold(&desk).await;
    let failures = read(desk.get("viewer", "/failures").await, 200).await;
    let group = &failures["groups"][0];
    assert_eq!((failures["groups"].as_array().unwrap().len(), &failures["cut"]), (1, &json!(false)));
    assert_eq!((&group["count"], &group["dead"], &group["consumerId"]), (&json!(5), &json!(5), &json!("points")));
    assert_eq!(
        (&group["fingerprint"], &group["errorCode"]),
        (&json!("the wallet of user # is away"), &json!("wallet"))
    );
    assert!(group["sampleEventId"].is_string() && group["first"].is_string() && group["last"].is_string());

    let consumers = read(desk.get("viewer", "/consumers").await, 200).await;
    let points = &consumers["consumers"][0];
    assert_eq!((&points["lag"], &points["dead"], &points["retrying"]), (&json!(2), &json!(5), &json!(0)));
    assert!(points["oldestAgeSeconds"].as_u64().unwrap() >= 90, "{points}");

    let stats = read(desk.get("viewer", "/stats?minutes=60").await, 200).await;
    assert_eq!((&stats["backlog"], &stats["dead"], &stats["processing"]), (&json!(2), &json!(5), &json!(1)));
    assert!(stats["oldestPendingSeconds"].as_f64().unwrap() >= 90.0, "{stats}");
    let sum =
        |field: &str| stats["minutes"].as_array().unwrap().iter().map(|one| one[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("created"), sum("dead")), (7, 5), "{stats}");
    read(desk.get("viewer", "/stats?minutes=0").await, 400).await;

    let instances = read(desk.get("viewer", "/instances").await, 200).await;
    let holdings = &instances["instances"][0]["holdings"];
    assert_eq!(
        (&holdings[0]["kind"], &holdings[0]["name"], &holdings[0]["count"]),
        (&json!("lane"), &json!("points"), &json!(1))
    );
    desk.close().await;
}

/// The messages of a stream.
struct Ear {
    messages: tokio::sync::mpsc::UnboundedReceiver<String>,
    heard: Vec<(String, Value)>,
}

impl Ear {
    /// Reads a stream in a task of its own, until it ends.
    fn of(mut response: reqwest::Response) -> (Self, tokio::task::JoinHandle<()>) {
        let (sender, messages) = tokio::sync::mpsc::unbounded_channel();
        let reading = tokio::spawn(async move {
            let mut text = String::new();
            while let Ok(Some(bytes)) = response.chunk().await {
                text.push_str(std::str::from_utf8(&bytes).unwrap());
                while let Some((message, rest)) = text.split_once("\n\n") {
                    let _ = sender.send(message.to_owned());
                    text = rest.to_owned();
                }
            }
        });
        (Self { messages, heard: Vec::new() }, reading)
    }

    /// The first message of this kind that matches, also one that is yet to come.
    async fn hear(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let hearing = async {
            loop {
                if let Some((_, data)) = self.heard.iter().find(|(said, data)| said == kind && fits(data)) {
                    return data.clone();
                }
                let message = self.messages.recv().await.expect("the stream goes on");
                let mut lines = message.lines();
                let said = lines.next().and_then(|line| line.strip_prefix("event: ")).unwrap_or_default().to_owned();
                let data = lines.next().and_then(|line| line.strip_prefix("data: ")).unwrap_or("null");
                self.heard.push((said, serde_json::from_str(data).unwrap()));
            }
        };
        tokio::time::timeout(Duration::from_secs(30), hearing).await.unwrap_or_else(|_| panic!("no {kind} that fits"))
    }
}

/// The stream reports new events, statuses, consumers, operations and figures, and ends with the server.
#[tokio::test]
async fn a_stream_reports_changes() {
    let desk = Desk::open().await;
    dead_events(&desk, 1).await;
    let response = desk.get("viewer", "/stream").await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let (mut ear, reading) = Ear::of(response);
    let stats = ear.hear("stats", |_| true).await;
    assert_eq!(stats["dead"], 1);
    desk.publish(json!({ "eventId": "new", "topic": "order.paid", "payload": "canary" }), 202).await;
    let event = ear.hear("event", |event| event["eventId"] == "new").await;
    assert_eq!(event["status"], "PENDING");
    assert!(!event.to_string().contains("canary"));
    ear.hear("consumer", |one| one["consumerId"] == "points" && one["lag"] == 1).await;
    let claimed = desk.claim("points", 1).await;
    let result =
        json!({ "deliveryId": claimed[0]["deliveryId"], "leaseToken": claimed[0]["leaseToken"], "success": true });
    desk.ask("consumer", "/consumers/points/settle", json!({ "results": [result] }), 200).await;
    ear.hear("status", |event| event["eventId"] == "new" && event["status"] == "CONSUMED").await;
    create(&desk, json!({}), 202).await;
    work(&desk).await;
    ear.hear("operation", |one| one["state"] == "DONE").await;
    ear.hear("status", |event| event["eventId"] == "e0" && event["status"] == "RETRYING").await;
    desk.close().await;
    reading.await.unwrap();
}
