//! What must not be seen, and what must not happen by mistake.

use postrider_server::{Mask, Options};
use reqwest::Method;
use serde_json::{Value, json};

use super::desk::{Desk, read};

/// S21: what the configuration names is masked below admin wherever people read a payload. A consumer gets all of it.
#[tokio::test]
async fn parts_of_payloads_are_for_admins_and_consumers() {
    let paths = ["$.card.number", "$..email", "$.items[*].price"].map(str::to_owned);
    let options = Options { mask: Mask::parse(&paths).unwrap(), ..Options::default() };
    let desk = Desk::with(options).await;
    desk.subscribe("order.paid", "points", json!({})).await;
    let body = r#"{"eventId":"e","topic":"order.paid","metadata":{"email":"canary@example.org","b":1},
        "payload":{"z":1.50,"card":{"number":"canary-4242"},"items":[{"price":"canary-7","n":1}],"email":"canary@example.org"}}"#;
    let sent = desk.request("publisher", Method::POST, "/api/v1/events").header("content-type", "application/json");
    read(sent.body(body).send().await.unwrap(), 202).await;
    let text = async |role: &str, path: &str| {
        let response = desk.get(role, path).await;
        assert_eq!(response.status(), 200, "{role} {path}");
        response.text().await.unwrap()
    };
    let shown = text("operator", "/events/e").await;
    assert!(
        shown.contains(r#""payload":{"z":1.50,"card":{"number":"***"},"items":[{"price":"***","n":1}],"email":"***"}"#),
        "{shown}"
    );
    assert!(shown.contains(r#""metadata":{"email":"***","b":1}"#), "{shown}");
    let file = text("operator", "/events/e/payload").await;
    assert_eq!(file, r#"{"z":1.50,"card":{"number":"***"},"items":[{"price":"***","n":1}],"email":"***"}"#);
    assert!(text("admin", "/events/e").await.contains("canary-4242"));
    assert!(text("admin", "/events/e/payload").await.contains("canary-4242"));
    for path in
        ["/events/e?payload=preview", "/events", "/search?q=canary", "/traces", "/counts", "/failures", "/stats"]
    {
        for role in ["viewer", "operator"] {
            assert!(!text(role, path).await.contains("canary"), "{role} {path}");
        }
    }
    assert!(!text("viewer", "/events/e").await.contains("canary"));
    let claimed = desk.claim("points", 1).await;
    assert_eq!(claimed[0]["event"]["payload"]["card"]["number"], "canary-4242", "it works with it");
    desk.close().await;
}

/// One way to destroy something.
struct Destruction {
    name: &'static str,
    method: Method,
    path: &'static str,
    /// A call that changes nothing and tells what would be concerned: method, path and body, status, and where the number is.
    preview: (Method, &'static str, Value, u16, &'static str),
    /// The same call without a reason, where it needs one, and with one.
    without: Option<Value>,
    with: (&'static str, Value),
    status: u16,
    /// The lowest role that may do it.
    role: &'static str,
}

fn destructions() -> Vec<Destruction> {
    let bulk = |more: Value| {
        let mut body = json!({ "kind": "redrive", "filter": { "topic": "order.paid" } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    vec![
        Destruction {
            name: "bulk redrive",
            method: Method::POST,
            path: "/operations",
            preview: (Method::POST, "/operations", bulk(json!({ "dryRun": true })), 200, "/matching"),
            without: Some(bulk(json!({}))),
            with: ("", bulk(json!({ "reason": "canary-why" }))),
            status: 202,
            role: "operator",
        },
        Destruction {
            name: "discard",
            method: Method::POST,
            path: "/events/e/discard",
            preview: (Method::GET, "/events/e?payload=none", Value::Null, 200, "/expectedConsumers"),
            without: Some(json!({ "consumerId": "points" })),
            with: ("", json!({ "consumerId": "points", "reason": "canary-why" })),
            status: 202,
            role: "operator",
        },
        Destruction {
            name: "removal of a subscription",
            method: Method::DELETE,
            path: "/subscriptions/order.paid/points",
            preview: (Method::DELETE, "/subscriptions/order.paid/points", Value::Null, 409, "/waiting"),
            // Its preview is the refusal: a call that does not say what becomes of what waits removes nothing.
            without: None,
            with: ("?waiting=discard&reason=canary-why", Value::Null),
            status: 204,
            role: "admin",
        },
    ]
}

/// S24: each has a preview with a number, needs a reason, is refused to lower roles, and leaves a record with the reason. Nothing
/// else destroys more than one thing: there is no purge, and pruning keeps to the retention.
#[tokio::test]
async fn what_destroys_needs_a_preview_a_reason_and_a_role() {
    const ORDER: [&str; 5] = ["viewer", "publisher", "consumer", "operator", "admin"];
    for one in destructions() {
        let desk = Desk::open().await;
        let name = one.name;
        desk.subscribe("order.paid", "points", json!({})).await;
        desk.publish(json!({ "eventId": "e", "topic": "order.paid", "payload": 1 }), 202).await;
        let call = async |role: &str, method: &Method, path: &str, body: &Value, expected: u16| {
            let request = desk.request(role, method.clone(), &format!("/api/v1{path}"));
            let request = if body.is_null() { request } else { request.json(body) };
            read(request.send().await.unwrap(), expected).await
        };
        let (method, path, body, status, place) = &one.preview;
        let preview = call(one.role, method, path, body, *status).await;
        assert_eq!(preview.pointer(place), Some(&json!(1)), "{name}: {preview}");
        assert_eq!(desk.show("e").await["deliveries"][0]["status"], "NEW", "{name}: a preview changes nothing");

        if let Some(body) = &one.without {
            let request = desk.request(one.role, one.method.clone(), &format!("/api/v1{}", one.path));
            let response = request.json(body).send().await.unwrap();
            let status = response.status().as_u16();
            let refused = response.text().await.unwrap();
            assert!(matches!(status, 400 | 422) && refused.contains("reason"), "{name}: {status} {refused}");
            assert_eq!(desk.show("e").await["deliveries"][0]["status"], "NEW", "{name}: without a reason");
        }

        let (query, body) = &one.with;
        let path = format!("{}{query}", one.path);
        for role in ORDER.iter().take_while(|role| **role != one.role) {
            call(role, &one.method, &path, body, 403).await;
        }
        call(one.role, &one.method, &path, body, one.status).await;
        let audit = read(desk.get("admin", "/audit").await, 200).await;
        let records = audit["records"].as_array().unwrap();
        let outcome = one.status.to_string();
        let record = records.iter().find(|record| record["reason"] == "canary-why" && record["outcome"] == outcome);
        let record = record.unwrap_or_else(|| panic!("{name}: {audit}"));
        assert_eq!(record["actor"], one.role, "{name}");
        desk.close().await;
    }
}

/// S25: health tells the state and nothing of the store, and the figures need a token.
#[tokio::test]
async fn health_and_metrics_give_nothing_away() {
    let desk = Desk::open().await;
    let open = async |method: Method, path: &str| {
        desk.client.request(method, format!("{}{path}", desk.url)).send().await.unwrap()
    };
    for path in ["/livez", "/readyz"] {
        for query in ["", "?verbose=1", "?full=true"] {
            let response = open(Method::GET, &format!("{path}{query}")).await;
            assert_eq!(response.status(), 200);
            for name in ["server", "x-powered-by", "via"] {
                assert!(!response.headers().contains_key(name), "{name}");
            }
            assert_eq!(response.text().await.unwrap(), "ok\n", "{path}{query}");
        }
        assert_eq!(open(Method::HEAD, path).await.text().await.unwrap(), "");
        assert_eq!(open(Method::POST, path).await.status(), 405);
    }
    // A schema of a later version: the answer does not say which.
    let version = "(version, description, success, checksum, execution_time)";
    desk.execute(&format!("INSERT INTO postrider_migrations {version} VALUES (7777, 'canary', true, 'canary', 0)"))
        .await;
    let response = open(Method::GET, "/readyz").await;
    assert_eq!(response.status(), 503);
    let text = response.text().await.unwrap();
    let problem: Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<_> = problem.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["code", "detail", "status", "title"]);
    assert_eq!(problem["code"], "schemaNew");
    for secret in ["7777", "canary", "127.0.0.1", "postgres", "sqlite", "mysql", "/tmp"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    desk.execute("DELETE FROM postrider_migrations WHERE version = 7777").await;
    for path in ["/metrics", "/metrics?token=x", "/api/v1/health", "/api/v1/instances", "/api/v1/stats"] {
        assert_eq!(open(Method::GET, path).await.status(), 401, "{path}");
    }
    desk.close().await;
}
