//! `postrider serve --broker`, as a process, with a virtual host of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use postrider_proof::broker::VirtualHost;
use postrider_proof::proxy::Proxy;
use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Database, Kind, Process, RelayProcess};

/// Reads an event until it is as wanted.
async fn until(server: &Process, event: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut shown = Value::Null;
    let reading = async {
        loop {
            shown = server.admin(Method::GET, &format!("/events/{event}"), Value::Null, 200).await;
            if wanted(&shown) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(60), reading).await.is_err() {
        panic!("{shown}");
    }
    shown
}

fn queues(listed: &str) -> Vec<String> {
    let listed: Vec<Value> = serde_json::from_str(listed).unwrap();
    listed.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// D.3: with a broker too, `bus.unheard` decides on an event without a subscriber. A kept one goes out once there is one.
#[tokio::test]
async fn with_rabbitmq_an_unheard_event_is_kept_or_refused() {
    let (database, host) = (Database::make(Kind::Sqlite).await, VirtualHost::fresh().await);
    let event = |id: &str| json!({ "eventId": id, "topic": "order.paid", "payload": 1 });
    let server = Process::start(&database, &["--broker", host.url(), "--set", "bus.unheard=refuse"]);
    let refused = server.admin(Method::POST, "/events", event("refused"), 422).await;
    assert_eq!(refused["code"], "notSubscribed", "{refused}");
    let token = server.token().to_owned();
    server.stop();

    let mut server = Process::start(&database, &["--broker", host.url(), "--set", "bus.unheard=keep"]);
    server.token = Some(token);
    server.admin(Method::GET, "/events/refused", Value::Null, 404).await;
    let kept = server.admin(Method::POST, "/events", event("kept"), 202).await;
    assert_eq!(kept["outcome"], "unheard", "{kept}");
    server.admin(Method::PUT, "/subscriptions/order.paid/member", json!({}), 200).await;
    let sent = until(&server, "kept", |shown| shown["status"] == "SENT").await;
    assert_eq!(sent["lastError"], Value::Null, "{sent}");
    server.kill();
    database.drop().await;
}

/// D.2, D.3, D.11: with a broker, `rabbitmq` is the default. The queue is there when the subscription is set, an event goes
/// into it, and an event without a subscriber is skipped, as without a broker.
#[tokio::test]
async fn a_broker_carries_what_is_subscribed_on_rabbitmq() {
    let (database, host) = (Database::make(Kind::Sqlite).await, VirtualHost::fresh().await);
    let policy = ["--set", "outbox.max-retry-count=3"];
    let server = Process::start(&database, &[&["--broker", host.url()], &policy[..]].concat());
    let event = |id: &str| json!({ "eventId": id, "topic": "order.paid", "payload": 1 });
    let skipped = server.admin(Method::POST, "/events", event("unheard"), 200).await;
    assert_eq!(skipped["outcome"], "skipped", "{skipped}");
    server.admin(Method::GET, "/events/unheard", Value::Null, 404).await;

    let set = server.admin(Method::PUT, "/subscriptions/order.paid/member", json!({}), 200).await;
    assert_eq!((&set["via"], &set["problem"]), (&json!("rabbitmq"), &Value::Null));
    let mut made = queues(&host.list("queues").await);
    made.retain(|name| !name.starts_with("postrider.receipts"));
    made.sort();
    let expected = ["", ".dead", ".retry.2", ".retry.4"];
    assert_eq!(made, expected.map(|end| format!("postrider.member{end}")));
    server.admin(Method::POST, "/events", event("e"), 202).await;
    let sent = until(&server, "e", |shown| shown["status"] == "SENT").await;
    assert_eq!(sent["lastError"], Value::Null, "{sent}");

    let missing = json!({ "exchange": "billing" });
    let set = server.admin(Method::PUT, "/subscriptions/order.sent/member", missing, 200).await;
    assert!(set["problem"].as_str().unwrap().contains("billing"), "{set}");
    let listed = async {
        loop {
            let listed = server.admin(Method::GET, "/subscriptions?topic=order.sent", Value::Null, 200).await;
            if listed["subscriptions"][0]["problem"].as_str().is_some_and(|problem| problem.contains("billing")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), listed).await.expect("the problem is listed");

    let consumers = server.admin(Method::GET, "/consumers", Value::Null, 200).await;
    let config = server.admin(Method::GET, "/config", Value::Null, 200).await.to_string();
    assert!(!config.contains("guest:guest"), "{config}");
    assert_eq!(consumers["consumers"][0]["lag"], Value::Null, "what a broker brings does not wait here");

    let disabled = json!({ "via": "rabbitmq", "enabled": false });
    server.admin(Method::PUT, "/subscriptions/order.paid/member", disabled, 200).await;
    let log = || std::fs::read_to_string(database.folder().join("log")).unwrap();
    let unbound = async {
        loop {
            let log = log();
            if let Some(line) = log.lines().find(|line| line.contains("unbound: what is in the queue stays")) {
                return line.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let unbound = tokio::time::timeout(Duration::from_secs(60), unbound).await.expect("the log says what stays");
    assert!(unbound.contains("postrider.member") && unbound.contains("messages=1"), "{unbound}");
    server.stop();
    let log = log();
    let problems = log.lines().filter(|line| line.contains("a subscription cannot be bound")).count();
    assert_eq!(problems, 1, "told once: {log}");
    host.remove().await;
    database.drop().await;
}

/// S21, A.17: a message that the broker returns is not logged with its payload, whatever is logged. It is tried as often as
/// configured.
#[tokio::test]
async fn no_payload_of_rabbitmq_is_in_the_log() {
    let (database, host) = (Database::make(Kind::Sqlite).await, VirtualHost::fresh().await);
    let twice = ["--set", "outbox.max-retry-count=2", "--set", "outbox.backoff-cap-seconds=1"];
    let server = Process::start_with_log(&database, &[&["--broker", host.url()], &twice[..]].concat(), Some("trace"));
    // Bound elsewhere: what goes to our exchange comes back.
    let elsewhere = json!({ "exchange": "amq.topic" });
    server.admin(Method::PUT, "/subscriptions/order.paid/member", elsewhere, 200).await;
    let event = json!({ "eventId": "returned", "topic": "order.paid", "payload": { "secret": "canary-in-a-mine" } });
    server.admin(Method::POST, "/events", event, 202).await;
    let shown = until(&server, "returned", |shown| shown["deliveries"][0]["status"] == "DEAD").await;
    assert_eq!(shown["deliveries"][0]["attempts"], 2, "{shown}");
    let error = shown["lastError"].as_str().unwrap();
    assert!(error.contains("NO_ROUTE") && error.contains("postrider.events"), "{error}");
    server.stop();
    let log = std::fs::read_to_string(database.folder().join("log")).unwrap();
    let line = log.lines().find(|line| line.contains("failed, will be tried again")).unwrap();
    for part in ["returned", "postrider.events", "order.paid", "NO_ROUTE"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(log.contains(" DEBUG "), "everything is logged");
    let canary = "canary-in-a-mine";
    let bytes = canary.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    let told: Vec<_> = log.lines().filter(|line| line.contains(canary) || line.contains(&bytes)).collect();
    assert!(told.is_empty(), "{told:?}");
    host.remove().await;
    database.drop().await;
}

/// D.11: what cannot be bound is shown by every instance, not only by the one that keeps the queues.
#[tokio::test]
async fn a_problem_with_rabbitmq_is_shown_by_every_instance() {
    let (database, host) = (Database::make(Kind::Sqlite).await, VirtualHost::fresh().await);
    let api = Process::start(&database, &["--role", "api", "--broker", host.url()]);
    let relay = RelayProcess::start(&[&database], "relay.log", &["--broker", host.url()]);
    api.admin(Method::PUT, "/subscriptions/order.sent/member", json!({ "exchange": "billing" }), 200).await;
    let listed = async {
        loop {
            let listed = api.admin(Method::GET, "/subscriptions?topic=order.sent", Value::Null, 200).await;
            if listed["subscriptions"][0]["problem"].as_str().is_some_and(|problem| problem.contains("billing")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), listed).await.expect("the API shows what the relay knows");
    relay.stop();
    api.stop();
    host.remove().await;
    database.drop().await;
}

/// A consumer in Python, which ends with the test.
struct PythonConsumer(Child);

impl PythonConsumer {
    /// `more`: the topic of its child event, how it reports, and whether it fails first. Its output is in the file
    /// `<name>.out` of the folder.
    fn start(host: &VirtualHost, server: &Process, folder: &Path, name: &str, more: &[&str]) -> Self {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/consumer.py");
        let file = |end: &str| std::fs::File::create(folder.join(format!("{name}.{end}"))).unwrap();
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/pika"));
        command.args([here, host.url(), &server.url, server.token(), name]).args(more);
        Self(command.stdout(file("out")).stderr(file("err")).spawn().unwrap())
    }
}

impl Drop for PythonConsumer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// D.2, D.4, D.5, D.6, D.10, D.11, D.12: the story of seed 003 §7, with two consumers in another language. One purchase is one
/// event; member and message service read their own queues; one of them fails first. The broker is away when it is
/// published.
#[tokio::test]
async fn one_source_and_many_consumers_in_python_on_rabbitmq() {
    let (database, host) = (Database::make(Kind::Sqlite).await, VirtualHost::fresh().await);
    let address: SocketAddr = host.url().rsplit_once('@').unwrap().1.split('/').next().unwrap().parse().unwrap();
    let proxy = Proxy::to(address).await.unwrap();
    let through = host.url().replace(&address.to_string(), &proxy.address().to_string());
    let server = Process::start(&database, &["--broker", &through]);
    for service in ["member-service", "message-service"] {
        let path = format!("/subscriptions/order.purchased/{service}");
        let set = server.admin(Method::PUT, &path, json!({}), 200).await;
        assert_eq!((&set["via"], &set["problem"]), (&json!("rabbitmq"), &Value::Null));
        assert!(queues(&host.list("queues").await).contains(&format!("postrider.{service}")));
    }
    for topic in ["points.added", "notification.sent"] {
        let path = format!("/subscriptions/{topic}/ledger");
        server.admin(Method::PUT, &path, json!({ "via": "external" }), 200).await;
    }

    proxy.refuse();
    proxy.reset();
    let purchase = |id: &str| {
        json!({
            "eventId": id, "topic": "order.purchased",
            "payload": { "orderId": "ORD-2024-002", "userId": "user-A", "amount": 199.0 },
            "initiator": { "service": "order-service", "operation": "confirmOrder", "userId": "user-A" },
        })
    };
    server.admin(Method::POST, "/events", purchase("evt-1"), 202).await;
    let pending = server.admin(Method::GET, "/events/evt-1", Value::Null, 200).await;
    assert_eq!((&pending["status"], &pending["expectedConsumers"]), (&json!("PENDING"), &json!(2)), "{pending}");
    let attempts = |shown: &Value, consumer: &str| -> Vec<(u64, Value)> {
        let all = shown["consumptions"].as_array().unwrap().iter().filter(|one| one["consumerId"] == consumer);
        all.map(|one| (one["attemptNo"].as_u64().unwrap(), one["success"].clone())).collect()
    };
    for service in ["member-service", "message-service"] {
        assert_eq!(attempts(&pending, service), [(0, Value::Null)], "expected from the start");
    }
    let away = "the broker is unreachable since 20";
    until(&server, "evt-1", |shown| shown["lastError"].as_str().is_some_and(|error| error.starts_with(away))).await;
    proxy.accept();
    until(&server, "evt-1", |shown| shown["status"] == "SENT").await;

    let folder = database.folder();
    let member = PythonConsumer::start(&host, &server, folder, "member-service", &["points.added", "receipts"]);
    let message =
        PythonConsumer::start(&host, &server, folder, "message-service", &["notification.sent", "http", "fail-first"]);
    let is_between = |shown: &Value| {
        attempts(shown, "message-service").len() == 2 && ["PARTIAL", "RETRYING"].iter().any(|s| shown["status"] == *s)
    };
    until(&server, "evt-1", is_between).await;
    let consumed = until(&server, "evt-1", |shown| shown["status"] == "CONSUMED").await;
    assert_eq!(attempts(&consumed, "member-service"), [(0, Value::Null), (1, json!(true))]);
    assert_eq!(attempts(&consumed, "message-service"), [(0, Value::Null), (1, json!(false)), (2, json!(true))]);
    let trace = consumed["traceId"].as_str().unwrap();
    let trace = server.admin(Method::GET, &format!("/traces/{trace}"), Value::Null, 200).await;
    let children = trace["roots"][0]["children"].as_array().unwrap();
    let mut children: Vec<_> = children.iter().map(|one| one["topic"].as_str().unwrap()).collect();
    children.sort_unstable();
    assert_eq!((&trace["roots"][0]["eventId"], children), (&json!("evt-1"), vec!["notification.sent", "points.added"]));

    let off = json!({ "enabled": false });
    server.admin(Method::PUT, "/subscriptions/order.purchased/message-service", off, 200).await;
    let unbound = async {
        while host.list("bindings").await.matches("postrider.events").count() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), unbound).await.expect("it is unbound");
    // Without its consumer, what came into the queue would stay there.
    drop(message);
    server.admin(Method::POST, "/events", purchase("evt-2"), 202).await;
    let consumed = until(&server, "evt-2", |shown| shown["status"] == "CONSUMED").await;
    assert_eq!(consumed["expectedConsumers"], 1);
    drop(member);
    let output = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.out"))).unwrap();
    assert!(output("member-service").contains("consumed evt-2"));
    assert!(!output("message-service").contains("evt-2"), "{}", output("message-service"));
    assert_eq!(host.take("postrider.message-service").await, "[]", "its queue gets nothing more");
    server.stop();
    host.remove().await;
    database.drop().await;
}
