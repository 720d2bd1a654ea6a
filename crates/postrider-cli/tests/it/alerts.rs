//! Alerts of the executable, with a real receiver: each once when it begins and once when it is over.

use std::net::SocketAddr;
use std::time::Duration;

use base64::prelude::*;
use hmac::{Hmac, KeyInit, Mac};
use postrider_proof::broker::VirtualHost;
use postrider_proof::proxy::Proxy;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;

use crate::process::{Database, Kind, Process};
use crate::webhooks::{SECRET, header, receive};

/// The longest that a test waits for a message.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A receiver of alerts.
struct Receiver(TcpListener);

impl Receiver {
    async fn open() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// What sends alerts here.
    fn settings(&self) -> Vec<String> {
        let url = format!("alert.webhook-url=http://{}/alerts", self.0.local_addr().unwrap());
        let secret = format!("alert.webhook-secret=whsec_{SECRET}");
        ["--set".into(), url, "--set".into(), secret, "--set".into(), "server.environment=staging".into()].into()
    }

    /// The next message, answered like this: its id and its body. Its signature is checked.
    async fn next(&self, answer: &str) -> (String, Value) {
        let (headers, body) = tokio::time::timeout(TIMEOUT, receive(&self.0, answer)).await.expect("an alert comes");
        let (id, timestamp) = (header(&headers, "webhook-id"), header(&headers, "webhook-timestamp"));
        let mut mac = Hmac::<Sha256>::new_from_slice(&BASE64_STANDARD.decode(SECRET).unwrap()).unwrap();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(&body);
        let expected = format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()));
        assert_eq!(header(&headers, "webhook-signature"), expected);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["environment"], "staging", "{body}");
        (id.to_owned(), body)
    }

    /// The next message, with its kind and state.
    async fn expect(&self, alert: &str, state: &str) -> Value {
        let (_, body) = self.next("204 No Content").await;
        assert_eq!((body["alert"].as_str(), body["state"].as_str()), (Some(alert), Some(state)), "{body}");
        body
    }
}

fn start(database: &Database, receiver: &Receiver, more: &[&str]) -> Process {
    let settings = receiver.settings();
    let arguments: Vec<&str> = settings.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Process::start(database, &arguments)
}

/// Reads the health until it is as wanted.
pub(crate) async fn healthy(server: &Process, token: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut shown = Value::Null;
    let reading = async {
        loop {
            shown = server.ask(token, Method::GET, "/health", Value::Null, 200).await;
            if wanted(&shown) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    if tokio::time::timeout(TIMEOUT, reading).await.is_err() {
        panic!("{shown:#}");
    }
    shown
}

async fn claim_and_settle(server: &Process, token: &str, result: Value) {
    let claimed =
        server.ask(token, Method::POST, "/consumers/points/claim", json!({ "max": 1, "waitSeconds": 50 }), 200).await;
    let delivery = &claimed["deliveries"][0];
    let mut one = json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"] });
    one.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
    let settled = server.ask(token, Method::POST, "/consumers/points/settle", json!({ "results": [one] }), 200).await;
    assert_eq!(settled["results"][0]["outcome"], "settled", "{settled}");
}

/// G.10, A.5: a dead delivery is sent once, also if the first call fails and the process is killed; its end is sent too.
/// The message and the log name what waits behind it, its code and its key.
#[tokio::test]
async fn an_alert_is_sent_once_although_the_process_is_killed() {
    let (database, receiver) = (Database::make(Kind::Sqlite).await, Receiver::open().await);
    let server = start(&database, &receiver, &[]);
    let token = server.token().to_owned();
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
    for id in ["first", "second"] {
        let event = json!({ "eventId": id, "topic": "order.paid", "key": "7", "payload": 1 });
        server.admin(Method::POST, "/events", event, 202).await;
    }
    let failure = json!({ "success": false, "willRetry": false, "errorMessage": "no wallet", "errorCode": "wallet" });
    claim_and_settle(&server, &token, failure).await;

    let (refused, _) = receiver.next("500 Internal Server Error").await;
    let (id, body) = receiver.next("204 No Content").await;
    assert_eq!(refused, id, "the same message again");
    for (field, value) in [
        ("alert", json!("dead")),
        ("state", json!("firing")),
        ("consumer", json!("points")),
        ("eventId", json!("first")),
        ("code", json!("wallet")),
        ("key", json!("7")),
        ("held", json!(1)),
    ] {
        assert_eq!(body[field], value, "{field} of {body}");
    }
    assert!(body["since"].is_string() && body["figures"]["dead"] == 1, "{body}");
    let shown = healthy(&server, &token, |health| health["alerts"][0]["sent"] == true).await;
    assert_eq!((&shown["alerts"][0]["alert"], &shown["ok"]), (&json!("dead"), &json!(false)), "{shown}");
    server.kill();

    let server = start(&database, &receiver, &[]);
    server.ask(&token, Method::POST, "/events/first/redrive", json!({}), 202).await;
    claim_and_settle(&server, &token, json!({ "success": true })).await;
    let over = receiver.expect("dead", "over").await;
    assert_eq!((&over["since"], &over["consumer"]), (&body["since"], &json!("points")));
    healthy(&server, &token, |health| health["alerts"] == json!([])).await;
    server.stop();

    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).collect::<Vec<_>>();
    assert_eq!((lines("ALERT: it begins").len(), lines("ALERT: it is over").len()), (1, 1), "{log}");
    let dead = lines("DEAD: given up");
    let [dead] = &dead[..] else { panic!("one line: {dead:?}") };
    for part in ["ERROR", "first", "order.paid", "points", "wallet", "no wallet", "held=1", "trace_id="] {
        assert!(dead.contains(part), "{part}: {dead}");
    }
    database.drop().await;
}

/// G.10: deliveries that no consumer takes are late and stalled; both end when one takes them.
#[tokio::test]
async fn late_and_stalled_lanes_send_an_alert_and_its_end() {
    let (database, receiver) = (Database::make(Kind::Sqlite).await, Receiver::open().await);
    let soon = ["--set", "alert.oldest-seconds=1", "--set", "alert.stalled-seconds=1"];
    let server = start(&database, &receiver, &soon);
    let token = server.token().to_owned();
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
    server.admin(Method::POST, "/events", json!({ "eventId": "e", "topic": "order.paid", "payload": 1 }), 202).await;
    for state in ["firing", "over"] {
        let mut seen = Vec::new();
        for _ in 0..2 {
            let (_, body) = receiver.next("200 OK").await;
            assert_eq!((&body["state"], &body["consumer"]), (&json!(state), &json!("points")), "{body}");
            seen.push(body["alert"].as_str().unwrap().to_owned());
        }
        seen.sort();
        assert_eq!(seen, ["oldest", "stalled"]);
        if state == "firing" {
            claim_and_settle(&server, &token, json!({ "success": true })).await;
        }
    }
    server.stop();
    database.drop().await;
}

/// G.10, G.9, F44: the process itself reports a store that does not answer, and that it is back. Meanwhile no request can be
/// served.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_postgres_sends_an_alert_and_its_end() {
    let (mut database, receiver) = (Database::make(Kind::Postgres).await, Receiver::open().await);
    let direct = database.url.clone();
    let address: SocketAddr = direct.rsplit_once('@').unwrap().1.split('/').next().unwrap().parse().unwrap();
    let proxy = Proxy::to(address).await.unwrap();
    database.url = direct.replace(&address.to_string(), &proxy.address().to_string());
    let server = start(&database, &receiver, &["--set", "alert.store-away-seconds=1"]);
    let ready = async || {
        let answer = server.client.get(format!("{}/readyz", server.url)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(ready().await.0, 200);
    proxy.refuse();
    proxy.reset();
    let away = receiver.expect("storeAway", "firing").await;
    assert!(away["figures"]["error"].is_string() && !away.to_string().contains("password"), "{away}");
    let (status, problem) = ready().await;
    let problem: Value = serde_json::from_str(&problem).unwrap();
    assert_eq!((status, &problem["code"]), (503, &json!("storeAway")), "{problem}");
    proxy.accept();
    let back = receiver.expect("storeAway", "over").await;
    assert_eq!(back["since"], away["since"]);
    assert_eq!(ready().await.0, 200);
    server.stop();
    database.url = direct;
    drop(proxy);
    database.drop().await;
}

/// D.4, G.10, F46: while the broker is away, the event that waits shows since when and why, without an attempt. The health
/// and an alert show it too, and its end.
#[tokio::test]
async fn a_rabbitmq_that_is_away_is_shown_with_time_and_reason() {
    let (database, host) = (Database::make(Kind::Sqlite).await, VirtualHost::fresh().await);
    let receiver = Receiver::open().await;
    let address: SocketAddr = host.url().rsplit_once('@').unwrap().1.split('/').next().unwrap().parse().unwrap();
    let proxy = Proxy::to(address).await.unwrap();
    let through = host.url().replace(&address.to_string(), &proxy.address().to_string());
    let soon = ["--broker", through.as_str(), "--set", "alert.broker-blocked-seconds=1"];
    let server = start(&database, &receiver, &soon);
    let token = server.token().to_owned();
    server.admin(Method::PUT, "/subscriptions/order.paid/member", json!({}), 200).await;
    healthy(&server, &token, |health| health["broker"]["state"] == "connected").await;

    proxy.refuse();
    proxy.cut();
    server.admin(Method::POST, "/events", json!({ "eventId": "e", "topic": "order.paid", "payload": 1 }), 202).await;
    let shown = healthy(&server, &token, |health| health["broker"]["state"] == "away").await;
    let (since, error) = (shown["broker"]["since"].as_str().unwrap(), shown["broker"]["error"].as_str().unwrap());
    assert!(!since.is_empty() && !error.is_empty() && shown["ok"] == false, "{shown}");
    let event = server.admin(Method::GET, "/events/e", Value::Null, 200).await;
    assert_eq!((&event["status"], &event["consumptions"][0]["success"]), (&json!("PENDING"), &Value::Null), "{event}");
    let last_error = event["lastError"].as_str().unwrap();
    assert!(
        last_error.starts_with(&format!("the broker is unreachable since {}", &since[..19])),
        "{last_error} {since}"
    );
    let listed = server.admin(Method::GET, "/events?topic=order.paid", Value::Null, 200).await;
    assert_eq!(listed["events"][0]["lastError"], event["lastError"], "{listed}");
    let alert = receiver.expect("brokerBlocked", "firing").await;
    assert_eq!(alert["figures"]["broker"], "away", "{alert}");

    proxy.accept();
    receiver.expect("brokerBlocked", "over").await;
    let sent = async {
        loop {
            let event = server.admin(Method::GET, "/events/e", Value::Null, 200).await;
            if event["status"] == "SENT" {
                return event;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let event = tokio::time::timeout(TIMEOUT, sent).await.expect("it goes out by itself");
    assert_eq!((&event["lastError"], &event["deliveries"]), (&Value::Null, &json!([])), "{event}");
    let attempts: Vec<_> = event["consumptions"].as_array().unwrap().iter().map(|one| one["success"].clone()).collect();
    assert!(!attempts.contains(&json!(false)), "no attempt failed: {event}");
    server.stop();
    host.remove().await;
    database.drop().await;
}
