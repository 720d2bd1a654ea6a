//! The hostile corpus at the doors of the server, and what plain SQL may have written behind them.

use postrider::prelude::*;
use postrider_conformance::hostile;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::desk::{Desk, read};

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

async fn post_text(desk: &Desk, role: &str, path: &str, body: String) -> Response {
    let request = desk.request(role, Method::POST, &format!("/api/v1{path}")).header("content-type", "application/json");
    request.body(body).send().await.unwrap()
}

/// F60: JSON that not every reader can read is refused with the field's name, alone and in a batch, and nothing is stored.
#[tokio::test]
async fn an_unreadable_payload_is_refused_at_the_door() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    for (name, payload) in hostile::unreadable_payloads() {
        let event = format!(r#"{{"eventId":"{name}","topic":"order.paid","payload":{payload}}}"#);
        let problem = read(post_text(&desk, "publisher", "/events", event.clone()).await, 422).await;
        assert_eq!(problem["errors"][0]["field"], "payload", "{name}: {problem}");
        let batch = format!(r#"{{"events":[{{"topic":"order.paid","payload":1}},{event}]}}"#);
        let problem = read(post_text(&desk, "publisher", "/events/batch", batch).await, 422).await;
        assert_eq!(problem["errors"][0]["field"], "events[1].payload", "{name}: {problem}");
        assert_eq!(desk.get("operator", &format!("/events/{name}")).await.status(), 404);
    }
    assert!(desk.claim("points", 10).await.is_empty(), "nothing is stored");
    desk.close().await;
}

/// F60: an unreadable event that plain SQL has written is buried alone, and its neighbours are claimed. Every answer of the
/// server stays JSON that a strict reader can read.
#[tokio::test]
async fn an_unreadable_payload_harms_no_reader() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let (bad, good) = (hostile::unreadable_payloads(), hostile::readable_payloads());
    for (name, payload) in bad.iter().chain(&good) {
        let values = format!("('{name}', 'order.paid', {})", desk.literal(payload));
        desk.execute(&format!("INSERT INTO postrider_event (event_id, topic, payload) VALUES {values}")).await;
    }
    desk.execute(
        "INSERT INTO postrider_event (event_id, topic, payload, metadata) VALUES ('odd-metadata', 'order.paid', '1', 'no json')",
    )
    .await;
    desk.store.route(1_000).await.unwrap();
    let claimed = desk.claim("points", 100).await;
    let mut names: Vec<_> = claimed.iter().map(|one| one["event"]["eventId"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, good.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    for name in bad.iter().map(|(name, _)| name.as_str()).chain(["odd-metadata"]) {
        // `read` is a strict reader: the whole answer becomes a value.
        let shown = read(desk.get("operator", &format!("/events/{name}")).await, 200).await;
        assert_eq!(shown["deliveries"][0]["status"], "DEAD", "{shown}");
        let attempt = &shown["consumptions"].as_array().unwrap().iter().find(|one| one["success"] == false).unwrap();
        assert_eq!(attempt["errorCode"], "unreadable", "{shown}");
        read(desk.get("operator", &format!("/events/{name}?payload=preview")).await, 200).await;
    }
    let listed = read(desk.get("viewer", "/events?limit=500").await, 200).await;
    assert_eq!(listed["events"].as_array().unwrap().len(), bad.len() + good.len() + 1);
    desk.close().await;
}

/// F61: an error text with half a character pair, control characters or ten megabytes is cleaned, and the other results of
/// the call count.
#[tokio::test]
async fn an_odd_error_text_counts_with_its_neighbours() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let ten_mebibytes = format!("\"{}\"", "x".repeat(10 * 1024 * 1024));
    let texts: Vec<_> = hostile::error_texts().into_iter().chain([ten_mebibytes]).collect();
    for n in 0..=texts.len() {
        desk.publish(json!({ "eventId": format!("e{n}"), "topic": "order.paid", "payload": n }), 202).await;
    }
    let claimed = desk.claim("points", 100).await;
    assert_eq!(claimed.len(), texts.len() + 1);
    let named = |n: usize| claimed.iter().find(|one| one["event"]["eventId"] == format!("e{n}")).unwrap();
    let held = |n: usize| format!(r#""deliveryId":{},"leaseToken":{}"#, named(n)["deliveryId"], named(n)["leaseToken"]);
    let failed = texts.iter().enumerate();
    let failed = failed.map(|(n, text)| format!(r#"{{{},"success":false,"errorMessage":{text},"errorCode":"E\u0007\ud800{n}"}}"#, held(n)));
    let done = format!(r#"{{{},"success":true}}"#, held(texts.len()));
    let results: Vec<_> = failed.chain([done]).collect();
    let body = format!(r#"{{"results":[{}]}}"#, results.join(","));
    let settled = read(post_text(&desk, "consumer", "/consumers/points/settle", body).await, 200).await;
    let outcomes: Vec<_> = settled["results"].as_array().unwrap().iter().map(|one| one["outcome"].clone()).collect();
    assert_eq!(outcomes, vec![json!("settled"); texts.len() + 1]);
    for n in 0..texts.len() {
        let shown = desk.show(&format!("e{n}")).await;
        let is_printable = |text: &str| text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'));
        let attempt = shown["consumptions"].as_array().unwrap().iter().find(|one| one["success"] == false).unwrap();
        let (error, code) = (attempt["errorMessage"].as_str().unwrap(), attempt["errorCode"].as_str().unwrap());
        assert!(is_printable(error) && error.chars().count() <= 1_000, "{attempt}");
        assert!(code.starts_with('E') && code.ends_with(&n.to_string()) && !code.contains(char::is_control), "{attempt}");
    }
    desk.close().await;
}

/// S13, F39: a hostile text in any field of an event is stored as it is or refused by its name, and finds nothing else as a
/// filter.
#[tokio::test]
async fn a_hostile_text_is_data_in_every_field() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    for text in hostile::strings() {
        for field in ["eventId", "key", "traceId", "tenantId", "storeId", "topic", "payload", "routingKey"] {
            let mut event = json!({ "topic": "order.paid", "payload": 1 });
            event[field] = json!(text);
            let response = desk.post("publisher", "/events", &event).send().await.unwrap();
            let status = response.status().as_u16();
            assert!(matches!(status, 200 | 202 | 409 | 413 | 422), "{field} {text:?}: {status}");
            if status == 202 {
                let id = response.json::<Value>().await.unwrap()["eventId"].as_str().unwrap().to_owned();
                assert_eq!(desk.show(&encoded(&id)).await[field], json!(text), "{field}");
            }
        }
        for filter in ["topic", "key", "traceId", "tenantId", "aggregateId", "cursor", "consumerId", "service", "status"] {
            let status = desk.get("viewer", &format!("/events?{filter}={}", encoded(&text))).await.status().as_u16();
            assert!(matches!(status, 200 | 400 | 404 | 422), "{filter} {text:?}: {status}");
        }
    }
    desk.close().await;
}

/// Raw requests that are no requests: answered with 4xx, or the connection is closed, and the server goes on.
#[tokio::test]
async fn a_hostile_request_is_refused() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let address = desk.url.strip_prefix("http://").unwrap();
    for (name, request) in hostile::files("requests") {
        let (head, token) = (b"{token}", desk.tokens["admin"].as_bytes());
        let mut bytes = Vec::new();
        let at = request.windows(head.len()).position(|part| part == head).unwrap_or(0);
        if at > 0 {
            bytes.extend_from_slice(&request[..at]);
            bytes.extend_from_slice(token);
            bytes.extend_from_slice(&request[at + head.len()..]);
        } else {
            bytes = request;
        }
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        // A connection that is reset has answered too.
        let _ = stream.read_to_end(&mut answer).await;
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).unwrap_or("closed").to_owned();
        assert!(status == "closed" || status.starts_with('4'), "{name}: {text}");
        assert_eq!(desk.client.get(format!("{}/livez", desk.url)).send().await.unwrap().status(), 200, "{name}");
    }
    let listed = read(desk.get("viewer", "/events").await, 200).await;
    assert_eq!(listed["events"], json!([]), "none of them published anything");
    desk.close().await;
}
