//! Marked texts in every place that holds a secret or a payload, and where they must not come out.

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Database, Kind, Process};

const MARK: &str = "canary";

/// Sends a body as it is, and returns the answer's text.
async fn send(server: &Process, token: &str, path: &str, body: String) -> String {
    let request = server.client.post(format!("{}/api/v1{path}", server.url)).bearer_auth(token);
    let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
    response.text().await.unwrap()
}

/// S21: no payload, token, secret or password is in the log (everything is logged), in metrics, in the configuration that is shown, or in
/// the refusal of a payload: whatever is wrong with the event, and also if the database refuses the statement.
async fn nothing_secret_comes_out(kind: Kind) {
    let database = Database::make(kind).await;
    let secret = "webhook.secret=whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5";
    let alerts = ["--set", "alert.webhook-secret=whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5"];
    let mut set = vec!["--set", secret, "--set", "webhook.allow-hosts=127.0.0.1"];
    set.extend(alerts);
    set.extend(["--set", "alert.webhook-url=http://127.0.0.1:1/", "--set", "alert.dead-per-hour=1"]);
    // Nothing listens there: every failure to connect is logged.
    set.extend(["--broker", "amqp://guest:canary-password@127.0.0.1:1/%2f"]);
    let server = Process::start_with_log(&database, &set, Some("debug,postrider=trace,postrider_server=trace"));
    let token = server.token().to_owned();
    let own = "whsec_Y2FuYXJ5LW93bi1zZWNyZXQtb2YtdGhlLWhvb2s=";
    let endpoint = "http://canary-user:canary-word@127.0.0.1:1/hook";
    for (consumer, body) in [
        ("points", json!({ "via": "pull" })),
        ("hook", json!({ "endpoint": endpoint, "secret": own, "maxAttempts": 1 })),
        ("queue", json!({ "via": "rabbitmq" })),
    ] {
        server.admin(Method::PUT, &format!("/subscriptions/order.paid/{consumer}"), body, 200).await;
    }
    let payload = json!({ "card": "canary-4242", "deep": [{ "x": "canary-5" }] });
    let event = json!({ "eventId": "e1", "topic": "order.paid", "payload": payload, "metadata": { "m": "canary-m" } });
    server.admin(Method::POST, "/events", event.clone(), 202).await;
    let mut refusals = Vec::new();
    let event = event.to_string();
    for body in [
        event.replace("canary-5", "canary-6"),
        event.replace("\"e1\"", "\"e2\"").replace("canary-4242", "canary\\ud800"),
        event.replace("{\"card\"", "{\"card\" 1"),
        event.replace("order.paid", "unheard.topic"),
        event.replace("\"topic\"", "\"topics\""),
        event.replace("\"e1\"", "\"e3\"").replace("canary-4242", &"canary".repeat(400_000)),
        event[..event.len() - 1].to_owned(),
    ] {
        refusals.push(send(&server, &token, "/events", body.clone()).await);
        refusals.push(send(&server, &token, "/events/batch", format!("{{\"events\":[{body}]}}")).await);
    }
    for wrong in ["canary-token", "prt_canary", "Bearer canary"] {
        refusals.push(send(&server, wrong, "/events", event.clone()).await);
        refusals.push(send(&server, &token, "/login", json!({ "token": wrong }).to_string()).await);
    }
    let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 5 }), 200).await;
    let delivery = &claimed["deliveries"][0];
    let result = json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "success": false, "willRetry": false });
    server.admin(Method::POST, "/consumers/points/settle", json!({ "results": [result] }), 200).await;
    let dead = async {
        while server.admin(Method::GET, "/events/e1", Value::Null, 200).await["deliveries"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["status"] == "DEAD")
            .count()
            < 2
        {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), dead).await.expect("the webhook is dead");
    // The database refuses the statement that has the payload.
    database.run_script("ALTER TABLE postrider_event RENAME TO postrider_event_away").await;
    refusals.push(send(&server, &token, "/events", event.replace("\"e1\"", "\"e4\"")).await);
    database.run_script("ALTER TABLE postrider_event_away RENAME TO postrider_event").await;

    let operator = server.token_of("operator").await;
    let get = async |path: &str| {
        let response = server.client.get(format!("{}{path}", server.url)).bearer_auth(&operator).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    for path in [
        "/metrics",
        "/api/v1/config",
        "/api/v1/events",
        "/api/v1/failures",
        "/api/v1/audit",
        "/api/v1/health",
        "/api/v1/consumers",
        "/api/v1/instances",
        "/api/v1/traces",
        "/api/v1/stats",
    ] {
        let (status, text) = get(path).await;
        assert!(status == 200 && !text.contains(MARK), "{path}: {status} {}", around(&text));
    }
    let (_, subscriptions) = get("/api/v1/subscriptions").await;
    assert!(!subscriptions.contains("canary-word") && !subscriptions.contains(own), "{subscriptions}");
    for refusal in &refusals {
        assert!(!refusal.contains(MARK), "{}", around(refusal));
    }
    server.kill();
    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    assert!(log.contains("DEAD") || log.contains("dead"), "the log is there");
    assert!(!log.contains(MARK), "{}", around(&log));
    assert!(!log.contains(&token) && !log.contains(&operator), "no token");
    assert!(!log.contains("Y2FuYXJ5"), "no secret");
    database.drop().await;
}

/// The text around the first mark.
fn around(text: &str) -> &str {
    let at = text.find(MARK).unwrap_or(0);
    let (from, to) = (text.floor_char_boundary(at.saturating_sub(300)), text.floor_char_boundary(at + 100));
    &text[from..to]
}

#[tokio::test]
async fn nothing_secret_comes_out_on_sqlite() {
    nothing_secret_comes_out(Kind::Sqlite).await;
}

#[tokio::test]
async fn nothing_secret_comes_out_on_postgres() {
    nothing_secret_comes_out(Kind::Postgres).await;
}

#[tokio::test]
async fn nothing_secret_comes_out_on_mysql() {
    nothing_secret_comes_out(Kind::MySql).await;
}
