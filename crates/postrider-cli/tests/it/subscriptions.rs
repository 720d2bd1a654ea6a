//! Subscriptions that change under waiting deliveries: a server as a process, with a broker, a receiver of webhooks, a program
//! with consumers in code, and consumers that pull or report.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider::store::mysql::MySqlStore;
use postrider::store::postgres::PostgresStore;
use postrider::store::sqlite::SqliteStore;
use postrider::{Consumer, Enlist, Failure, Inbox, RawEvent, Received, Relay};
use postrider_proof::broker::VirtualHost;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::process::{Database, Kind, Process};
use crate::webhooks::{SECRET, receive};

const EVERY: [&str; 5] = ["local", "pull", "webhook", "rabbitmq", "external"];

/// Consumers in code: one of each name.
macro_rules! in_code {
    ($($kind:ident = $name:literal),+) => {
        $(struct $kind;

        impl<S: Enlist> Consumer<S> for $kind {
            const NAME: &'static str = $name;
            const TOPICS: &'static [&'static str] = &[$name];
            type Event = RawEvent;

            async fn handle(&self, _: &mut S::Conn, _: Received<RawEvent>) -> Result<(), Failure> {
                Ok(())
            }
        })+

        /// Serves them until it is stopped.
        async fn consume<S: Enlist>(store: S, stop: CancellationToken) {
            let inbox = Inbox::new(store.clone())$(.consumer($kind))+;
            Relay::new(store, inbox).run(stop.cancelled_owned()).await.unwrap();
        }
    };
}

in_code!(
    FromPull = "pull-local",
    FromWebhook = "webhook-local",
    FromBroker = "rabbitmq-local",
    FromOutside = "external-local",
    Disabled = "local-off",
    Removed = "local-deliver"
);

/// Everything around one server.
struct Stage {
    database: Database,
    host: VirtualHost,
    server: Process,
    endpoint: String,
    stop: CancellationToken,
}

impl Stage {
    async fn open(kind: Kind) -> Self {
        let (database, host) = (Database::make(kind).await, VirtualHost::fresh().await);
        let secret = format!("webhook.secret=whsec_{SECRET}");
        let hooks = ["--set", &secret, "--set", "webhook.allow-hosts=127.0.0.1"];
        let server = Process::start(&database, &[&["--broker", host.url()], &hooks[..]].concat());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let receiving = async move {
            loop {
                receive(&listener, "204 No Content").await;
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(receiving));
        Self { database, host, server, endpoint, stop }
    }

    async fn set(&self, consumer: &str, via: &str, more: Value) -> Value {
        let mut body = json!({ "via": via });
        if via == "webhook" {
            body["endpoint"] = self.endpoint.as_str().into();
        }
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let set = self.server.admin(Method::PUT, &format!("/subscriptions/{consumer}/{consumer}"), body, 200).await;
        assert_eq!(set["problem"], Value::Null, "{set}");
        set
    }

    /// Publishes an event that is due in a while: it waits until then, whichever way it goes.
    async fn publish(&self, consumer: &str) {
        let due = time::OffsetDateTime::now_utc() + Duration::from_secs(20);
        let due = due.format(&time::format_description::well_known::Rfc3339).unwrap();
        let event = json!({ "eventId": consumer, "topic": consumer, "payload": 1, "deliverAt": due });
        self.server.admin(Method::POST, "/events", event, 202).await;
    }

    async fn show(&self, event_id: &str) -> Value {
        self.server.admin(Method::GET, &format!("/events/{event_id}"), Value::Null, 200).await
    }

    async fn report(&self, consumer: &str) {
        let report = json!({ "consumerId": consumer, "success": true });
        self.server.admin(Method::POST, &format!("/events/{consumer}/consumptions"), report, 201).await;
    }

    /// Does what a consumer with this `via` does until its event is consumed. Webhooks and consumers in code are served by
    /// the stage.
    async fn serve(&self, consumer: &str, via: &str) {
        match via {
            "pull" => {
                let claim = json!({ "max": 10, "waitSeconds": 55 });
                let claimed =
                    self.server.admin(Method::POST, &format!("/consumers/{consumer}/claim"), claim, 200).await;
                let delivery = &claimed["deliveries"][0];
                assert_eq!(delivery["event"]["eventId"], consumer, "{claimed}");
                let result = json!({
                    "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "success": true
                });
                let results = json!({ "results": [result] });
                self.server.admin(Method::POST, &format!("/consumers/{consumer}/settle"), results, 200).await;
            }
            "rabbitmq" => {
                let queue = format!("postrider.{consumer}");
                while !self.host.take(&queue).await.contains(&format!("\\\"eventId\\\":\\\"{consumer}\\\"")) {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                self.report(consumer).await;
            }
            "external" => self.report(consumer).await,
            _ => {}
        }
        while self.show(consumer).await["status"] != "CONSUMED" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until each consumer has consumed its event.
    async fn serve_all(&self, consumers: &[(String, &str)]) {
        let serving = futures_util::future::join_all(consumers.iter().map(|(name, via)| self.serve(name, via)));
        if tokio::time::timeout(Duration::from_secs(120), serving).await.is_err() {
            for (name, _) in consumers {
                let shown = self.show(name).await;
                assert_eq!(shown["status"], "CONSUMED", "{shown}");
            }
        }
    }

    async fn consume_in_code(&self, kind: Kind) -> JoinHandle<()> {
        let (url, stop) = (&*self.database.url, self.stop.clone());
        match kind {
            Kind::Sqlite => tokio::spawn(consume(SqliteStore::connect(url).await.unwrap(), stop)),
            Kind::Postgres => tokio::spawn(consume(PostgresStore::connect(url).await.unwrap(), stop)),
            Kind::MySql => tokio::spawn(consume(MySqlStore::connect(url).await.unwrap(), stop)),
        }
    }

    async fn close(self) {
        self.stop.cancel();
        self.server.stop();
        self.host.remove().await;
        self.database.drop().await;
    }
}

/// F64: every `via` is changed to every other under a waiting event, which is delivered the new way.
async fn each_via_to_each_other(kind: Kind) {
    let stage = Stage::open(kind).await;
    let pairs = EVERY.iter().flat_map(|from| EVERY.iter().filter(move |to| *to != from).map(move |to| (*from, *to)));
    let pairs: Vec<_> = pairs.map(|(from, to)| (format!("{from}-{to}"), from, to)).collect();
    for (consumer, from, _) in &pairs {
        stage.set(consumer, from, json!({})).await;
        stage.publish(consumer).await;
        let changed = stage.set(consumer, pairs.iter().find(|pair| pair.0 == *consumer).unwrap().2, json!({})).await;
        assert_eq!(changed["waiting"], 1, "{changed}");
    }
    let in_code = stage.consume_in_code(kind).await;
    stage.serve_all(&pairs.into_iter().map(|(consumer, _, to)| (consumer, to)).collect::<Vec<_>>()).await;
    stage.stop.cancel();
    in_code.await.unwrap();
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_via_is_changed_to_each_other_on_sqlite() {
    each_via_to_each_other(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_via_is_changed_to_each_other_on_postgres() {
    each_via_to_each_other(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_via_is_changed_to_each_other_on_mysql() {
    each_via_to_each_other(Kind::MySql).await;
}

/// F64: what waits for a disabled subscription, and for a removed one, is delivered; or it is ended with a reason.
async fn disabled_and_removed(kind: Kind) {
    let stage = Stage::open(kind).await;
    let mut served = Vec::new();
    for via in EVERY {
        for (end, query) in [("off", ""), ("deliver", "?waiting=deliver"), ("discard", "?waiting=discard&reason=gone")]
        {
            let consumer = format!("{via}-{end}");
            stage.set(&consumer, via, json!({})).await;
            stage.publish(&consumer).await;
            if end == "off" {
                assert_eq!(stage.set(&consumer, via, json!({ "enabled": false })).await["waiting"], 1);
            } else {
                let path = format!("/subscriptions/{consumer}/{consumer}");
                let refused = stage.server.admin(Method::DELETE, &path, Value::Null, 409).await;
                assert_eq!(refused["waiting"], 1, "{refused}");
                stage.server.admin(Method::DELETE, &format!("{path}{query}"), Value::Null, 204).await;
            }
            if end == "discard" {
                let shown = stage.show(&consumer).await;
                assert_eq!((&shown["status"], &shown["deliveries"]), (&json!("FAILED"), &json!([])), "{shown}");
                assert!(shown["lastError"].as_str().unwrap().contains("was removed"), "{shown}");
            } else {
                served.push((consumer, via));
            }
        }
    }
    let in_code = stage.consume_in_code(kind).await;
    stage.serve_all(&served).await;
    stage.stop.cancel();
    in_code.await.unwrap();
    let listed = stage.server.admin(Method::GET, "/consumers", Value::Null, 200).await;
    let left: BTreeSet<_> =
        listed["consumers"].as_array().unwrap().iter().map(|one| one["consumerId"].clone().to_string()).collect();
    let left = left.iter().filter(|one| !one.contains("-local"));
    assert_eq!(left.clone().count(), EVERY.len(), "only the disabled ones: {left:?}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_disabled_and_removed_ones_is_delivered_or_ended_on_sqlite() {
    disabled_and_removed(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_disabled_and_removed_ones_is_delivered_or_ended_on_postgres() {
    disabled_and_removed(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_disabled_and_removed_ones_is_delivered_or_ended_on_mysql() {
    disabled_and_removed(Kind::MySql).await;
}

/// D.2: what an operator has disabled or removed stays so when the server and the program of the consumer start again; a change
/// in the table counts without a restart.
#[tokio::test]
async fn what_an_operator_chose_survives_a_restart() {
    let database = Database::make(Kind::Sqlite).await;
    let server = Process::start(&database, &[]);
    for (name, end) in [("pull-local", "disabled"), ("webhook-local", "removed"), ("rabbitmq-local", "by hand")] {
        let path = format!("/subscriptions/{name}/{name}");
        server.admin(Method::PUT, &path, json!({ "via": "local", "enabled": end != "disabled" }), 200).await;
        if end == "removed" {
            server.admin(Method::DELETE, &path, Value::Null, 204).await;
        }
    }
    let token = server.token.clone();
    server.stop();
    let mut server = Process::start(&database, &[]);
    server.token = token;
    let store = SqliteStore::connect(&database.url).await.unwrap();
    let stop = CancellationToken::new();
    let in_code = tokio::spawn(consume(store.clone(), stop.clone()));
    // The program has registered its consumers when those that were unknown are listed.
    let listed = loop {
        let listed = server.admin(Method::GET, "/subscriptions", Value::Null, 200).await;
        let text = listed.to_string();
        if ["external-local", "local-deliver", "local-off"].iter().all(|name| text.contains(name)) {
            break listed;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let names: Vec<_> = listed["subscriptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["consumerId"].clone(), one["enabled"].clone()))
        .collect();
    let new = ["external-local", "local-deliver", "local-off"].map(|name| (name, true));
    let expected = new.into_iter().chain([("pull-local", false), ("rabbitmq-local", true)]);
    assert_eq!(names, expected.map(|(name, enabled)| (json!(name), json!(enabled))).collect::<Vec<_>>());
    let publish = async |name: &str| {
        let event = json!({ "topic": name, "payload": 1 });
        let request = server.client.post(format!("{}/api/v1/events", server.url)).bearer_auth(server.token());
        request.json(&event).send().await.unwrap().json::<Value>().await.unwrap()["outcome"].clone()
    };
    for name in ["pull-local", "webhook-local"] {
        assert_eq!(publish(name).await, "skipped", "{name}");
    }
    assert_eq!(publish("rabbitmq-local").await, "accepted");
    let mut tx = store.begin().await.unwrap();
    let by_hand = "UPDATE postrider_subscription SET enabled = false WHERE consumer = 'rabbitmq-local'";
    sqlx::query(by_hand).execute(&mut *tx).await.unwrap();
    store.commit(tx).await.unwrap();
    assert_eq!(publish("rabbitmq-local").await, "skipped", "a change in the table counts");
    stop.cancel();
    in_code.await.unwrap();
    server.stop();
    database.drop().await;
}
