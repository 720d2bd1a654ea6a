//! Consumers that are called: a receiver of our own, and a server that calls it.

use base64::prelude::*;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::process::{Database, Kind, Process};
use crate::{stderr, stdout};

pub(crate) const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// One call, read to its end and answered.
pub(crate) async fn receive(listener: &TcpListener, answer: &str) -> (Vec<(String, String)>, Vec<u8>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    loop {
        let mut some = [0; 4096];
        let n = stream.read(&mut some).await.unwrap();
        assert_ne!(n, 0, "the call ended early");
        bytes.extend_from_slice(&some[..n]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let headers: Vec<_> = head.lines().skip(1).filter_map(|line| line.split_once(": ")).collect();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_lowercase(), (*value).to_owned())).collect();
        let length: usize = header(&headers, "content-length").parse().unwrap();
        if bytes.len() == end + 4 + length {
            let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            return (headers, bytes[end + 4..].to_vec());
        }
    }
}

pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    &headers.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name} is missing: {headers:?}")).1
}

/// S17: the call is signed as Standard Webhooks has it, an answer other than 2xx is tried again, and the subscription that
/// brought it came while the server was running.
#[tokio::test]
async fn a_webhook_is_signed_retried_and_consumed() {
    let database = Database::make(Kind::Sqlite).await;
    let secret = format!("webhook.secret=whsec_{SECRET}");
    let server = Process::start(&database, &["--set", &secret, "--set", "webhook.allow-hosts=127.0.0.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/hook", listener.local_addr().unwrap());
    let set = server.admin(Method::PUT, "/subscriptions/order.paid/mailer", json!({ "endpoint": endpoint }), 200).await;
    assert_eq!(set["via"], "webhook");
    let event = json!({ "eventId": "order:7", "topic": "order.paid", "payload": { "orderId": 7 } });
    server.admin(Method::POST, "/events", event, 202).await;

    let (first, _) = receive(&listener, "302 Found\r\nlocation: http://127.0.0.1:1/").await;
    let (headers, body) = receive(&listener, "204 No Content").await;
    assert_eq!(header(&first, "webhook-id"), header(&headers, "webhook-id"), "the same message");
    let (id, timestamp) = (header(&headers, "webhook-id"), header(&headers, "webhook-timestamp"));
    let mut mac = Hmac::<Sha256>::new_from_slice(&BASE64_STANDARD.decode(SECRET).unwrap()).unwrap();
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(&body);
    let expected = format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!((id, header(&headers, "webhook-signature")), ("order:7", expected.as_str()));
    assert!(header(&headers, "traceparent").starts_with("00-"));
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&body["payload"]["orderId"], &body["topic"]), (&json!(7), &json!("order.paid")));
    assert!(body["sentAt"].is_string());

    let settled = async {
        loop {
            let shown = server.admin(Method::GET, "/events/order:7", Value::Null, 200).await;
            if shown["status"] == "CONSUMED" {
                return shown;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let shown = tokio::time::timeout(std::time::Duration::from_secs(60), settled).await.unwrap();
    assert_eq!(shown["consumptions"][1]["errorCode"], "http302");
    server.stop();
    database.drop().await;
}

/// Which of the secrets have signed, as the standard's own library judges it.
fn signed_by(secrets: &[&str], headers: &[(String, String)], body: &[u8]) -> Vec<bool> {
    let mut map = reqwest::header::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        map.insert(name, header(headers, name).parse().unwrap());
    }
    let verify = |secret: &&str| standardwebhooks::Webhook::new(secret).unwrap().verify(body, &map).is_ok();
    secrets.iter().map(verify).collect()
}

/// S17: a subscription has a secret of its own, also where the server has none; it is rotated, removed and never shown. The
/// other subscriptions are signed by the server.
async fn a_subscription_has_its_own_secret(kind: Kind) {
    let database = Database::make(kind).await;
    let secret = format!("webhook.secret=whsec_{SECRET}");
    let hosts = "webhook.allow-hosts=127.0.0.1";
    let server = Process::start(&database, &["--set", hosts]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/hook", listener.local_addr().unwrap());
    let [one, two] = [1, 2].map(|n| format!("whsec_{}", BASE64_STANDARD.encode([n; 32])));
    let servers = format!("whsec_{SECRET}");
    let known = [servers.as_str(), one.as_str(), two.as_str()];
    let path = "/subscriptions/order.paid/mailer";
    let put = async |server: &Process, secret: Option<Value>, expected: u16| {
        let mut body = json!({ "endpoint": endpoint });
        if let Some(secret) = secret {
            body["secret"] = secret;
        }
        server.admin(Method::PUT, path, body, expected).await
    };
    let refused = put(&server, None, 409).await;
    assert_eq!(refused["code"], "webhookSecretMissing");
    for bad in ["whsec_c2hvcnQ=", "whsec_%", "", "hunter2-hunter2-hunter2-hunter2-!"] {
        let refused = put(&server, Some(json!(bad)), 422).await;
        assert_eq!(refused["errors"][0]["field"], "secret");
        assert!(bad.is_empty() || !refused.to_string().contains(bad), "{refused}");
    }
    assert_eq!(put(&server, Some(json!(one)), 200).await["ownSecret"], true);
    put(&server, None, 200).await;
    let mut number = 0;
    let mut called = async |server: &Process| {
        number += 1;
        let event = json!({ "eventId": format!("e{number}"), "topic": "order.paid", "payload": number });
        server.admin(Method::POST, "/events", event, 202).await;
        loop {
            let (headers, body) = receive(&listener, "204 No Content").await;
            // A call may come twice, after a restart.
            if header(&headers, "webhook-id") == format!("e{number}") {
                return signed_by(&known, &headers, &body);
            }
        }
    };
    assert_eq!(called(&server).await, [false, true, false]);
    let token = server.token.clone();
    server.stop();

    let mut server = Process::start(&database, &["--set", hosts, "--set", &secret]);
    server.token = token;
    assert_eq!(called(&server).await, [false, true, false], "its own comes first");
    let file = database.folder().join("secret");
    std::fs::write(&file, format!("{two}\n")).unwrap();
    let file = file.display().to_string();
    let set = ["subscriptions", "set", "order.paid", "mailer", "--endpoint", &endpoint, "--secret-file", &file];
    let done = server.run(&set);
    assert!(done.status.success() && !stdout(&done).contains(&two), "{}", stderr(&done));
    // The relay reads the subscriptions every second.
    let mut signed = called(&server).await;
    while signed != [false, true, true] {
        assert_eq!(signed, [false, true, false]);
        signed = called(&server).await;
    }
    for path in ["/subscriptions", path, "/audit", "/config", "/events/e1"] {
        let shown = server.admin(Method::GET, path, Value::Null, 200).await.to_string();
        assert!(known.iter().all(|secret| !shown.contains(&secret["whsec_".len()..])), "{path}");
    }
    let audit = server.admin(Method::GET, "/audit", Value::Null, 200).await.to_string();
    assert!(audit.contains("secret") && audit.contains("set"), "that it was set is recorded: {audit}");
    let removed = put(&server, Some(Value::Null), 200).await;
    assert_eq!(removed["ownSecret"], Value::Null);
    while called(&server).await != [true, false, false] {}
    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    assert!(known.iter().all(|secret| !log.contains(&secret["whsec_".len()..])));
    server.kill();
    database.drop().await;
}

#[tokio::test]
async fn a_subscription_has_its_own_secret_on_sqlite() {
    a_subscription_has_its_own_secret(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_subscription_has_its_own_secret_on_postgres() {
    a_subscription_has_its_own_secret(Kind::Postgres).await;
}

#[tokio::test]
async fn a_subscription_has_its_own_secret_on_mysql() {
    a_subscription_has_its_own_secret(Kind::MySql).await;
}

/// A receiver that does not answer has the time that its subscription names, and as many attempts.
#[tokio::test]
async fn a_subscription_limits_the_calls_of_its_receiver() {
    let database = Database::make(Kind::Sqlite).await;
    let secret = format!("webhook.secret=whsec_{SECRET}");
    let server = Process::start(&database, &["--set", &secret, "--set", "webhook.allow-hosts=127.0.0.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/hook", listener.local_addr().unwrap());
    let limited = json!({ "endpoint": endpoint, "timeoutSeconds": 1, "maxAttempts": 1 });
    server.admin(Method::PUT, "/subscriptions/order.paid/mailer", limited, 200).await;
    server.admin(Method::POST, "/events", json!({ "eventId": "e", "topic": "order.paid", "payload": 1 }), 202).await;
    let (called, _) = listener.accept().await.unwrap();
    let began = std::time::Instant::now();
    let shown = loop {
        let shown = server.admin(Method::GET, "/events/e", Value::Null, 200).await;
        if shown["deliveries"][0]["status"] == "DEAD" {
            break shown;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    // The server allows 15 seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(shown["consumptions"][1]["errorCode"], "unreachable", "{shown}");
    drop(called);
    server.stop();
    database.drop().await;
}

/// F67: while one receiver does not answer and subscriptions change, the others go on.
#[tokio::test]
async fn one_hanging_receiver_delays_no_other() {
    let database = Database::make(Kind::Sqlite).await;
    let secret = format!("webhook.secret=whsec_{SECRET}");
    let hosts = "webhook.allow-hosts=127.0.0.1";
    let server = Process::start(&database, &["--set", &secret, "--set", hosts, "--set", "webhook.timeout-seconds=60"]);
    let (hanging, answering) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let subscribe = async |consumer: &str, listener: &TcpListener| {
        let endpoint = format!("http://{}/hook", listener.local_addr().unwrap());
        let path = format!("/subscriptions/order.paid/{consumer}");
        server.admin(Method::PUT, &path, json!({ "endpoint": endpoint }), 200).await;
    };
    subscribe("hangs", &hanging).await;
    subscribe("answers", &answering).await;
    // Two thirds of a minute less than the hanging call may take.
    let in_time = std::time::Duration::from_secs(20);
    let mut held = Vec::new();
    for n in 0..4 {
        let event = json!({ "eventId": format!("e{n}"), "topic": "order.paid", "payload": n });
        server.admin(Method::POST, "/events", event, 202).await;
        let (headers, _) =
            tokio::time::timeout(in_time, receive(&answering, "204 No Content")).await.expect("it goes on");
        assert_eq!(header(&headers, "webhook-id"), format!("e{n}"));
        if n == 0 {
            held.push(hanging.accept().await.unwrap());
        }
        // A new consumer of another topic: the lanes of webhooks change.
        let path = format!("/subscriptions/order.other/new{n}");
        let endpoint = json!({ "endpoint": format!("http://{}/other", answering.local_addr().unwrap()) });
        server.admin(Method::PUT, &path, endpoint, 200).await;
        // It is served once the change is in force.
        let event = json!({ "eventId": format!("other{n}"), "topic": "order.other", "payload": n });
        server.admin(Method::POST, "/events", event, 202).await;
        for _ in 0..=n {
            let call = tokio::time::timeout(in_time, receive(&answering, "204 No Content")).await.expect("it goes on");
            assert_eq!(header(&call.0, "webhook-id"), format!("other{n}"));
        }
    }
    drop(held);
    server.kill();
    database.drop().await;
}

/// S18: a private address is refused when it is set, and not called, unless it is allowed.
#[tokio::test]
async fn a_private_address_is_refused() {
    let database = Database::make(Kind::Sqlite).await;
    let secret = format!("webhook.secret=whsec_{SECRET}");
    let hosts = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let set = async |server: &Process, n: usize, host: &str, expected| {
        let body = json!({ "endpoint": format!("https://{host}:{port}/") });
        server.admin(Method::PUT, &format!("/subscriptions/t{n}/hook{n}"), body, expected).await
    };
    let server = Process::start(
        &database,
        &["--set", &secret, "--set", "webhook.allow-hosts=127.0.0.1,localhost,[::ffff:7f00:1]"],
    );
    for (n, host) in hosts.into_iter().enumerate() {
        set(&server, n, host, 200).await;
    }
    let token = server.token.clone();
    server.stop();

    let mut server = Process::start(&database, &["--set", &secret]);
    server.token = token;
    for host in hosts.into_iter().chain(["2130706433", "0x7f.1"]) {
        let refused = set(&server, 9, host, 422).await;
        assert_eq!(refused["errors"][0]["field"], "endpoint");
        assert!(refused["detail"].as_str().unwrap().contains("private"), "{refused}");
    }
    for n in 0..hosts.len() {
        let event = json!({ "eventId": format!("e{n}"), "topic": format!("t{n}"), "payload": 1 });
        server.admin(Method::POST, "/events", event, 202).await;
        let refused = async {
            loop {
                let shown = server.admin(Method::GET, &format!("/events/e{n}"), Value::Null, 200).await;
                if let Some(error) = shown["lastError"].as_str() {
                    return error.to_owned();
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        let error = tokio::time::timeout(std::time::Duration::from_secs(60), refused).await.unwrap();
        assert!(error.contains("private"), "{error}");
    }
    let called = tokio::time::timeout(std::time::Duration::from_millis(10), listener.accept()).await;
    assert!(called.is_err(), "nobody came");
    server.stop();
    database.drop().await;
}
