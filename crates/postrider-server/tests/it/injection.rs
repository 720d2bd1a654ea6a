//! SQL in every parameter of every route: it is data, or refused.

use std::time::{Duration, Instant};

use postrider::prelude::*;
use postrider_server::{Options, TABLE, document};
use reqwest::Method;
use serde_json::{Value, json};

use super::desk::{Desk, read};

/// What breaks out of a text, ends a statement, or waits, in some dialect.
const INJECTIONS: [&str; 12] = [
    "'",
    "\"",
    "\\",
    "`",
    "' OR '1'='1",
    "') OR ('1'='1' --",
    "'; DROP TABLE postrider_event; --",
    "1; SELECT pg_sleep(20)",
    "' AND sleep(20) -- ",
    "' UNION SELECT secret, secret, secret FROM postrider_webhook_secret -- ",
    "\\'; DELETE FROM postrider_subscription; #",
    "$1 ?1 :a @b %s %",
];

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The schema that a part of the document refers to.
fn resolved<'d>(document: &'d Value, part: &'d Value) -> &'d Value {
    match part["$ref"].as_str() {
        Some(place) => document.pointer(place.trim_start_matches('#')).unwrap(),
        None => part,
    }
}

/// Each call of one route that has the text in one place: path and query, and body.
fn calls(document: &Value, path: &str, method: &Method, text: &str) -> Vec<(String, Value)> {
    let operation = &document["paths"][path][method.as_str().to_lowercase()];
    let fill = |value: &str| {
        let parts = path.split('/').map(|part| if part.starts_with('{') { encoded(value) } else { part.into() });
        parts.collect::<Vec<_>>().join("/")
    };
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let fields = resolved(document, schema)["properties"].as_object();
    let empty = if fields.is_some() { json!({}) } else { Value::Null };
    let mut calls = Vec::new();
    if path.contains('{') {
        calls.push((fill(text), empty.clone()));
    }
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
        let name = parameter["name"].as_str().unwrap();
        calls.push((format!("{}?{name}={}", fill("known"), encoded(text)), empty.clone()));
    }
    for field in fields.into_iter().flat_map(|fields| fields.keys()) {
        for value in [json!(text), json!([text]), json!({ "topic": text, "key": text, "service": text })] {
            calls.push((fill("known"), json!({ (field): value })));
        }
    }
    calls
}

/// S13: nothing is executed, waits or breaks, and what was there is there.
#[tokio::test]
async fn sql_in_any_parameter_is_data() {
    let desk = Desk::with(Options { requests_per_second: 1_000_000, ..Options::default() }).await;
    desk.subscribe("order.paid", "known", json!({})).await;
    desk.publish(json!({ "eventId": "known", "topic": "order.paid", "payload": 1 }), 202).await;
    let document = serde_json::to_value(document()).unwrap();
    let mut asked = 0;
    // A stream has no end, and a login or logout is about the caller only.
    let doors = TABLE.iter().filter(|entry| !entry.path.ends_with("/stream") && !entry.path.contains("/log"));
    for entry in doors.filter(|entry| entry.path.starts_with("/api/")) {
        for text in INJECTIONS {
            for (path, body) in calls(&document, entry.path, &entry.method, text) {
                let request = desk.request("admin", entry.method.clone(), &path).header("x-request-id", "known");
                let request = if body.is_null() { request } else { request.json(&body) };
                let began = Instant::now();
                let response = request.send().await.unwrap();
                let (status, answer) = (response.status().as_u16(), response.text().await.unwrap());
                assert!(status < 500, "{} {path} {body}: {status} {answer}", entry.method);
                assert!(began.elapsed() < Duration::from_secs(10), "{} {path} {body} waited", entry.method);
                for leak in ["syntax error", "SQLSTATE", "SQL syntax", "unrecognized token", "near \""] {
                    assert!(!answer.contains(leak), "{} {path} {body}: {answer}", entry.method);
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 1_500, "the document was read: {asked}");
    for field in ["x-request-id", "traceparent", "idempotency-key", "if-match", "ce-id"] {
        for text in INJECTIONS {
            let event = json!({ "eventId": "known", "topic": "order.paid", "payload": 1 });
            let request = desk.post("publisher", "/events", &event).header(field, text);
            let status = request.send().await.unwrap().status().as_u16();
            assert!(status < 500, "{field} {text}: {status}");
        }
    }
    let found = desk.store.find("known").await.unwrap().unwrap();
    // It may have been expired: that is one of the calls, with the text as its reason.
    assert_eq!((found.envelope.topic.as_str(), found.envelope.payload.as_str()), ("order.paid", "1"));
    let subscriptions = read(desk.get("admin", "/subscriptions?topic=order.paid").await, 200).await;
    assert!(subscriptions["subscriptions"].as_array().unwrap().iter().any(|one| one["consumerId"] == "known"));
    let tokens = desk.store.tokens().await.unwrap();
    assert!(tokens.iter().filter(|token| token.revoked_at.is_none()).count() >= 5, "no token was revoked");
    desk.close().await;
}
