//! `postrider serve`, as a process, over HTTP, on each store.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Database, Kind, Process};
use crate::{postrider, stderr, stdout};

/// The story of a consumer in another language: publish, claim, fail, retry, settle; then the server is stopped, and killed,
/// and nothing is lost.
async fn a_pulling_consumer(kind: Kind) {
    let database = Database::make(kind).await;
    let server = Process::start(&database, &[]);
    let (publisher, consumer) = (server.token_of("publisher").await, server.token_of("consumer").await);
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
    let event = json!({ "eventId": "order:7:paid", "topic": "order.paid", "payload": { "orderId": 7 }, "key": "7" });
    server.ask(&publisher, Method::POST, "/events", event.clone(), 202).await;
    server.ask(&publisher, Method::POST, "/events", event, 200).await;

    let claim = async |wait: u64| {
        let wanted = json!({ "max": 10, "leaseSeconds": 60, "waitSeconds": wait });
        let claimed = server.ask(&consumer, Method::POST, "/consumers/points/claim", wanted, 200).await;
        claimed["deliveries"].as_array().unwrap().clone()
    };
    let settle = async |delivery: &Value, success: bool| {
        let result = json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "success": success, "errorMessage": "no" });
        let settled =
            server.ask(&consumer, Method::POST, "/consumers/points/settle", json!({ "results": [result] }), 200).await;
        assert_eq!(settled["results"][0]["outcome"], "settled");
    };
    let first = claim(0).await;
    assert_eq!((&first[0]["attempt"], &first[0]["event"]["payload"]["orderId"]), (&json!(1), &json!(7)));
    settle(&first[0], false).await;
    // The long poll waits until the event is due again, about two seconds later.
    let second = claim(50).await;
    assert_eq!(second[0]["attempt"], 2);
    settle(&second[0], true).await;
    let shown = server.admin(Method::GET, "/events/order:7:paid", Value::Null, 200).await;
    assert_eq!((&shown["status"], &shown["consumedConsumers"]), (&json!("CONSUMED"), &json!(1)));
    assert_eq!(shown["initiator"]["service"], "publisher");
    let attempts: Vec<_> = shown["consumptions"].as_array().unwrap().iter().map(|one| one["success"].clone()).collect();
    assert_eq!(attempts, [Value::Null, json!(false), json!(true)], "expected, failed, done");
    let ready = server.client.get(format!("{}/readyz", server.url)).send().await.unwrap();
    assert_eq!(ready.status().as_u16(), 200);

    // G.4: what was accepted is there after a stop, and after a kill.
    let token = server.token().to_owned();
    server
        .ask(&publisher, Method::POST, "/events", json!({ "eventId": "a", "topic": "order.paid", "payload": 1 }), 202)
        .await;
    server.stop();
    let server = Process::start(&database, &[]);
    assert_eq!(server.token, None, "a token is printed once");
    server
        .ask(&publisher, Method::POST, "/events", json!({ "eventId": "b", "topic": "order.paid", "payload": 2 }), 202)
        .await;
    server.kill();
    let server = Process::start(&database, &[]);
    let wanted = json!({ "max": 10 });
    let claimed = server.ask(&consumer, Method::POST, "/consumers/points/claim", wanted, 200).await;
    let ids: Vec<_> =
        claimed["deliveries"].as_array().unwrap().iter().map(|one| one["event"]["eventId"].clone()).collect();
    assert_eq!(ids, ["a", "b"]);
    server.ask(&token, Method::GET, "/audit", Value::Null, 200).await;
    server.stop();
    database.drop().await;
}

#[tokio::test]
async fn a_pulling_consumer_on_sqlite() {
    a_pulling_consumer(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_pulling_consumer_on_postgres() {
    a_pulling_consumer(Kind::Postgres).await;
}

#[tokio::test]
async fn a_pulling_consumer_on_mysql() {
    a_pulling_consumer(Kind::MySql).await;
}

/// D.5: 64 callbacks at the same moment are 64 attempts, on a server that writes them side by side.
async fn simultaneous_callbacks(kind: Kind) {
    let database = Database::make(kind).await;
    let server = Process::start(&database, &[]);
    let external = json!({ "via": "external" });
    server.admin(Method::PUT, "/subscriptions/order.paid/member", external, 200).await;
    server.admin(Method::POST, "/events", json!({ "eventId": "e", "topic": "order.paid", "payload": 1 }), 202).await;
    let callbacks: Vec<_> = (0..64)
        .map(|n| {
            let body = json!({ "consumerId": "member", "success": n == 63, "willRetry": true, "callbackId": format!("c{}", n / 2) });
            let request = server.client.post(format!("{}/api/v1/events/e/consumptions", server.url));
            tokio::spawn(request.bearer_auth(server.token()).json(&body).send())
        })
        .collect();
    let (mut new, mut repeated) = (Vec::new(), 0);
    for callback in callbacks {
        let response = callback.await.unwrap().unwrap();
        match response.status().as_u16() {
            201 => {
                new.push(serde_json::from_str::<Value>(&response.text().await.unwrap()).unwrap()["attemptNo"].as_u64())
            }
            200 => repeated += 1,
            other => panic!("{other}"),
        }
    }
    new.sort_unstable();
    assert_eq!(new, (1..=32).map(Some).collect::<Vec<_>>(), "each callback id once, without gap or repeat");
    assert_eq!(repeated, 32);
    server.stop();
    database.drop().await;
}

#[tokio::test]
async fn simultaneous_callbacks_on_postgres() {
    simultaneous_callbacks(Kind::Postgres).await;
}

#[tokio::test]
async fn simultaneous_callbacks_on_mysql() {
    simultaneous_callbacks(Kind::MySql).await;
}

/// A.19: a plain INSERT reaches a pulling consumer through the server's relay.
#[tokio::test]
async fn a_plain_insert_is_claimed_on_sqlite() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
    let sql = "INSERT INTO postrider_event (event_id, topic, payload) VALUES ('by-hand', 'order.paid', '{}')";
    let file = database.url.trim_start_matches("sqlite://").to_owned();
    let shell = std::process::Command::new("sqlite3").args(["-cmd", ".timeout 5000", &file, sql]).status().unwrap();
    assert!(shell.success());
    let wanted = json!({ "max": 1, "waitSeconds": 50 });
    let claimed = server.admin(Method::POST, "/consumers/points/claim", wanted, 200).await;
    assert_eq!(claimed["deliveries"][0]["event"]["eventId"], "by-hand");
    server.stop();
    database.drop().await;
}

/// G.3: what is finished and older than `retention.finished-days` goes, into files first where `retention.archive-dir` names a
/// folder; an event with waiting deliveries stays.
#[tokio::test]
async fn what_is_finished_and_old_is_archived_and_removed_on_sqlite() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    let token = server.token().to_owned();
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
    let event = |id: &str| json!({ "eventId": id, "topic": "order.paid", "payload": { "of": id } });
    server.admin(Method::POST, "/events", event("done"), 202).await;
    let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 1 }), 200).await;
    let one = &claimed["deliveries"][0];
    let result = json!({ "deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"], "success": true });
    server.admin(Method::POST, "/consumers/points/settle", json!({ "results": [result] }), 200).await;
    server.admin(Method::POST, "/events", event("waits"), 202).await;
    server.stop();
    // No lease is held, and five days have passed.
    let sql = "UPDATE postrider_event SET created_at = created_at - 432000000; DELETE FROM postrider_lease;";
    let file = database.url.trim_start_matches("sqlite://").to_owned();
    assert!(std::process::Command::new("sqlite3").args([&file, sql]).status().unwrap().success());

    let folder = database.folder().join("archive");
    let archive = format!("retention.archive-dir={}", folder.display());
    let server = Process::start(&database, &["--set", "retention.finished-days=4", "--set", &archive]);
    let gone = async {
        let shown = async || {
            let request = server.client.get(format!("{}/api/v1/events/done", server.url)).bearer_auth(&token);
            request.send().await.unwrap().status().as_u16()
        };
        while shown().await != 404 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("the old event goes");
    server.ask(&token, Method::GET, "/events/waits", Value::Null, 200).await;
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    let line = std::fs::read_to_string(&files[0]).unwrap();
    let kept: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((files.len(), line.lines().count(), &kept["status"]), (1, 1, &json!("CONSUMED")), "{line}");
    assert_eq!(kept["event"]["payload"]["of"], "done", "{line}");
    server.stop();
    database.drop().await;
}

/// S1, S22, A.17, F46: a bad value stops the start, and the message names its key and origin.
#[tokio::test]
async fn a_wrong_configuration_stops_the_start() {
    let database = Database::make(Kind::Sqlite).await;
    let file = database.folder().join("postrider.toml");
    let start = |toml: &str, arguments: &[&str]| {
        std::fs::write(&file, toml).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let file = file.display().to_string();
        postrider(&[&["serve", "--store", &database.url, "--config", &file], arguments].concat())
    };
    for (toml, arguments, expected) in [
        ("[outbox]\nbatch-size = 0", &[][..], "outbox.batch-size in {file} must be a number from 1 to 500"),
        ("[outbox]\nlease = 3", &[], "outbox.lease in {file} is no key"),
        ("[retention]\ninbox-days = 1", &[], "retention.inbox-days in {file}: retention of the inbox must be at least"),
        ("[webhook]\nsecret = 'short'", &[], "webhook.secret in {file}: secret must be whsec_"),
        ("listen = '0.0.0.0:0'", &[], "listen in {file}: 0.0.0.0:0 can be reached from outside"),
        ("", &["--listen", "[::]:0"], "listen in the command line: [::]:0 can be reached from outside"),
        ("", &["--set", "tls.cert=x"], "tls.key in the defaults: is needed beside tls.cert"),
        ("", &["--set", "otel.endpoint=nowhere"], "otel.endpoint in the command line: must be a URL such as"),
        ("[otel]\nendpoint = 'http://h'\nheaders = 'x'", &[], "otel.headers in {file}: must be NAME=VALUE"),
        (
            "[outbox]\nlease-seconds = 10",
            &["--broker", "amqp://guest:guest@127.0.0.1:1/%2f"],
            "outbox.lease-seconds in {file}: the broker may take 10 seconds to confirm: set more than that",
        ),
        ("", &["--set", "outbox.backoff-jitter=2"], "outbox.backoff-jitter in the command line must be a share"),
    ] {
        let refused = start(toml, arguments);
        assert_eq!(refused.status.code(), Some(1), "{expected}");
        let expected = expected.replace("{file}", &file.display().to_string());
        assert!(stderr(&refused).contains(&expected), "{}", stderr(&refused));
        assert!(!stdout(&refused).contains("listening"));
    }
    database.drop().await;
}

/// F09: after a kill the next process takes over the roll-up soon, so that lists do not stand still.
#[tokio::test]
async fn lists_follow_soon_after_a_kill() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
    let listed = async |server: &Process, id: &str| {
        server.admin(Method::POST, "/events", json!({ "eventId": id, "topic": "order.paid", "payload": 1 }), 202).await;
        let claimed = server.admin(Method::POST, "/consumers/points/claim", json!({ "max": 1 }), 200).await;
        let delivery = &claimed["deliveries"][0];
        let result =
            json!({ "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "success": true });
        server.admin(Method::POST, "/consumers/points/settle", json!({ "results": [result] }), 200).await;
        let began = std::time::Instant::now();
        while server.admin(Method::GET, "/events?status=CONSUMED", Value::Null, 200).await["events"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["eventId"] != id)
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        began.elapsed()
    };
    // It holds the lease of the roll-up now.
    listed(&server, "before").await;
    let token = server.token.clone();
    server.kill();
    let mut server = Process::start(&database, &[]);
    server.token = token;
    let waited = listed(&server, "after").await;
    assert!(waited < Duration::from_secs(9), "{waited:?}");
    server.stop();
    database.drop().await;
}

/// `GET /config` shows each value and its origin.
#[tokio::test]
async fn the_effective_configuration_is_shown_without_secrets() {
    let database = Database::make(Kind::Sqlite).await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let server =
        Process::start(&database, &["--set", "outbox.batch-size=7", "--set", &format!("webhook.secret={secret}")]);
    let config = server.admin(Method::GET, "/config", Value::Null, 200).await;
    let of = |key: &str| {
        let settings = config["settings"].as_array().unwrap();
        let one = settings.iter().find(|one| one["key"] == key).unwrap();
        (one["value"].as_str().unwrap().to_owned(), one["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("outbox.batch-size"), ("7".into(), "flag".into()));
    assert_eq!(of("outbox.lease-seconds"), ("30".into(), "default".into()));
    assert_eq!(of("webhook.secret"), ("***".into(), "flag".into()));
    assert!(!config.to_string().contains("MfKQ9"));
    let metrics =
        server.client.get(format!("{}/metrics", server.url)).bearer_auth(server.token()).send().await.unwrap();
    assert_eq!(metrics.status().as_u16(), 200);
    server.stop();
    database.drop().await;
}

/// S21, D.3: neither tokens nor payloads are logged. An event without a subscription is an error with its id and topic.
#[tokio::test]
async fn the_log_contains_no_secrets() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    server.admin(Method::PUT, "/subscriptions/order.paid/points", json!({}), 200).await;
    let event = json!({ "topic": "order.paid", "payload": "canary-payload", "metadata": { "m": "canary-metadata" } });
    server.admin(Method::POST, "/events", event, 202).await;
    server
        .admin(
            Method::POST,
            "/events",
            json!({ "eventId": "e-17", "topic": "unheard", "payload": "canary-payload" }),
            200,
        )
        .await;
    let token = server.token().to_owned();
    tokio::time::timeout(Duration::from_secs(60), async { server.stop() }).await.unwrap();
    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    let skipped =
        log.lines().find(|line| line.contains("its topic has no subscription")).unwrap_or_else(|| panic!("{log}"));
    assert!(skipped.contains("ERROR") && skipped.contains("e-17") && skipped.contains("unheard"), "{skipped}");
    assert!(!log.contains("canary") && !log.contains(&token), "{log}");
    database.drop().await;
}

/// S1, S23: with a certificate it speaks TLS, and cookies insist on it.
#[tokio::test]
async fn a_certificate_makes_it_https() {
    let database = Database::make(Kind::Sqlite).await;
    let (cert, key) = (database.folder().join("cert.pem"), database.folder().join("key.pem"));
    let config = database.folder().join("openssl.cnf");
    let said = "[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n[dn]\nCN=localhost\n[ext]\n\
                basicConstraints=critical,CA:FALSE\nsubjectAltName=IP:127.0.0.1\n";
    std::fs::write(&config, said).unwrap();
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"])
        .arg("-config")
        .arg(&config)
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let files = [format!("tls.cert={}", cert.display()), format!("tls.key={}", key.display())];
    let server = Process::start(&database, &["--set", &files[0], "--set", &files[1]]);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let certificate = reqwest::Certificate::from_pem(&std::fs::read(&cert).unwrap()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([certificate]).build().unwrap();
    let login = client.post(format!("{}/api/v1/login", server.url)).json(&json!({ "token": server.token() }));
    let answer = login.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert!(answer.headers()["set-cookie"].to_str().unwrap().ends_with("; Secure"));
    let stranger = server.client.get(format!("{}/livez", server.url)).send().await;
    assert!(stranger.is_err(), "whoever does not know the certificate does not trust it");
    server.stop();
    database.drop().await;
}
