//! Whatever goes wrong is a problem: with a title, what to do, and a code.

use reqwest::Method;
use serde_json::json;

use super::desk::{Desk, read};

#[tokio::test]
async fn every_mistake_is_answered_with_a_problem() {
    let desk = Desk::open().await;
    let events = |kind: &str, body: &str| {
        desk.request("publisher", Method::POST, "/api/v1/events").header("content-type", kind).body(body.to_owned())
    };
    let get = |path: &str| desk.request("operator", Method::GET, path);
    let json = "application/json";
    for (request, status, code) in [
        (get("/api/v1/nothing"), 404, "notFound"),
        (get("/nothing"), 404, "notFound"),
        (get("/api/v1/events/unknown"), 404, "notFound"),
        (get("/api/v1/events/%00"), 404, "notFound"),
        (get(&format!("/api/v1/events/{}", "a".repeat(65))), 404, "notFound"),
        (get("/api/v1/events/%ff"), 404, "notFound"),
        (get("/api/v1/login"), 405, "methodNotAllowed"),
        (desk.request("admin", Method::PATCH, "/api/v1/events"), 405, "methodNotAllowed"),
        (get("/api/v1/audit?limit=0"), 400, "badQuery"),
        (get("/api/v1/audit?limit=501"), 400, "badQuery"),
        (get("/api/v1/audit?limit=x"), 400, "badQuery"),
        (get("/api/v1/audit?cursor=x"), 400, "badQuery"),
        (get("/api/v1/audit?unknown=1"), 400, "badQuery"),
        (get("/api/v1/subscriptions?topic=a%00b"), 400, "badQuery"),
        (events("text/plain", "{}"), 415, "unsupportedMediaType"),
        (events(json, "{"), 400, "badJson"),
        (events(json, ""), 400, "badJson"),
        (events(json, "{} {}"), 422, "invalid"),
        (events(json, "[]"), 422, "invalid"),
        (events(json, r#"{"topic":"t"}"#), 422, "invalid"),
        (events(json, r#"{"topic":"t","payload":1,"colour":"red"}"#), 422, "invalid"),
        (events(json, r#"{"topic":"t","payload":1,"key":{}}"#), 422, "invalid"),
        (events(json, r#"{"topic":"t","payload":1,"occurredAt":"yesterday"}"#), 422, "invalid"),
        (events(json, r#"{"topic":"t","payload":1,"occurredAt":"0001-01-01T00:00:00Z"}"#), 422, "invalid"),
        (events(json, r#"{"topic":"t","payload":1,"payloadEncoding":"base64"}"#), 422, "invalid"),
        (events(json, r#"{"topic":"t","payload":"%","payloadEncoding":"base64"}"#), 422, "invalid"),
        (events(json, r#"{"topic":"t","payload":1,"aggregateId":7}"#), 422, "invalid"),
        (events(json, r#"{"topic":"t","payload":1,"eventId":""}"#), 422, "invalid"),
        (events("application/cloudevents+json", r#"{"specversion":"1.0"}"#), 422, "invalid"),
        (events("application/cloudevents+json", "{"), 400, "badJson"),
    ] {
        let request = request.build().unwrap();
        let what = format!("{} {}", request.method(), request.url());
        let response = desk.client.execute(request).await.unwrap();
        assert!(response.headers().contains_key("x-request-id"), "{what}");
        let problem = read(response, status).await;
        assert_eq!(problem["code"], code, "{what}: {problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
    }
    desk.close().await;
}

#[tokio::test]
async fn a_field_that_breaks_a_rule_is_named() {
    let desk = Desk::open().await;
    let problem = desk.publish(json!({ "topic": "a b", "payload": 1 }), 422).await;
    assert_eq!(problem["errors"][0]["field"], "topic");
    let problem = desk.publish(json!({ "topic": "t", "payload": 1, "initiator": { "userId": [] } }), 422).await;
    assert_eq!(problem["errors"][0]["field"], "initiator.userId", "{problem}");
    let batch = json!({ "events": [{ "topic": "t", "payload": 1 }, { "topic": "a b", "payload": 1 }] });
    let problem = desk.ask("publisher", "/events/batch", batch, 422).await;
    assert_eq!(problem["errors"][0]["field"], "events[1].topic", "{problem}");
    let batch = json!({ "events": [{ "topic": "t", "payload": 1 }, { "topic": 7, "payload": 1 }] });
    let problem = desk.ask("publisher", "/events/batch", batch, 422).await;
    assert_eq!(problem["errors"][0]["field"], "events[1].topic", "{problem}");
    desk.close().await;
}

#[tokio::test]
async fn a_wrong_method_is_answered_with_the_allowed_ones() {
    let desk = Desk::open().await;
    let response = desk.client.patch(format!("{}/api/v1/tokens", desk.url)).send().await.unwrap();
    assert_eq!(response.headers()["allow"], "GET, HEAD, POST");
    read(response, 405).await;
    let head = desk.request("viewer", Method::HEAD, "/api/v1/jobs").send().await.unwrap();
    assert_eq!(head.status().as_u16(), 200);
    desk.close().await;
}

/// The caller's request id comes back, and stands in the audit.
#[tokio::test]
async fn a_request_keeps_its_id() {
    let desk = Desk::open().await;
    let request = desk.request("viewer", Method::GET, "/api/v1/jobs").header("x-request-id", "r-17");
    assert_eq!(request.send().await.unwrap().headers()["x-request-id"], "r-17");
    let long = "a".repeat(129);
    let request = desk.request("viewer", Method::GET, "/api/v1/jobs").header("x-request-id", &long);
    assert_ne!(request.send().await.unwrap().headers()["x-request-id"], long.as_str());
    desk.close().await;
}
