//! `serve` in parts: the API alone, and relays alone, on several stores and on some of the shards.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider::shard::shard_of;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::process::{Database, Kind, Process, RelayProcess};
use crate::webhooks::{SECRET, header, receive};
use crate::{postrider, stderr};

/// A receiver of webhooks: where it is, and the ids of what it is called with.
async fn receiver() -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let (told, calls) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (headers, _) = receive(&listener, "204 No Content").await;
            if told.send(header(&headers, "webhook-id").to_owned()).is_err() {
                return;
            }
        }
    });
    (endpoint, calls)
}

/// So many calls, by what they are about.
async fn called(calls: &mut mpsc::UnboundedReceiver<String>, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(120), calls.recv()).await;
        ids.push(next.unwrap_or_else(|_| panic!("{} of {count} came: {ids:?}", ids.len())).unwrap());
    }
    ids
}

/// What a server and its relays have to agree on.
fn settings() -> [String; 4] {
    let secret = format!("webhook.secret=whsec_{SECRET}");
    ["--set".into(), secret, "--set".into(), "webhook.allow-hosts=127.0.0.1".into()]
}

fn with<'a>(settings: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    settings.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

/// B.4: an API that only takes events, and one relay for the stores of two services.
#[tokio::test]
async fn a_relay_serves_two_stores_on_sqlite_and_postgres() {
    let (first, second) = (Database::make(Kind::Sqlite).await, Database::make(Kind::Postgres).await);
    let settings = settings();
    let (endpoint, mut calls) = receiver().await;
    let mut apis = Vec::new();
    for (database, id) in [(&first, "of-the-first"), (&second, "of-the-second")] {
        let api = Process::start(database, &with(&settings, &["--role", "api"]));
        api.admin(Method::PUT, "/subscriptions/order.paid/mailer", json!({ "endpoint": endpoint }), 200).await;
        api.admin(Method::POST, "/events", json!({ "eventId": id, "topic": "order.paid", "payload": 1 }), 202).await;
        let shown = api.admin(Method::GET, &format!("/events/{id}"), Value::Null, 200).await;
        assert_eq!(shown["deliveries"][0]["attempts"], 0, "an API carries nothing");
        apis.push((api, id));
    }
    let relay = RelayProcess::start(&[&first, &second], "relay.log", &with(&settings, &[]));
    let ids: BTreeSet<_> = called(&mut calls, 2).await.into_iter().collect();
    assert_eq!(ids, BTreeSet::from(["of-the-first".to_owned(), "of-the-second".to_owned()]));
    for (api, id) in apis {
        // The relay's roll-up lists them, too.
        let consumed = async {
            loop {
                let listed = api.admin(Method::GET, "/events?status=CONSUMED", Value::Null, 200).await;
                if listed["events"][0]["eventId"] == id {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), consumed).await.expect("it is consumed");
        api.stop();
    }
    relay.stop();
    let refused = postrider(&["serve", "--role", "api", "--store", &first.url, "--store", &second.url]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("only --role relay takes several --store"), "{}", stderr(&refused));
    first.drop().await;
    second.drop().await;
}

/// B.4: relays with shards of their own deliver everything between them, each event once, and neither what is the other's.
#[tokio::test]
async fn two_relays_share_the_shards_on_postgres() {
    const EVENTS: usize = 100;
    let database = Database::make(Kind::Postgres).await;
    let settings = settings();
    let (endpoint, mut calls) = receiver().await;
    let api = Process::start(&database, &with(&settings, &["--role", "api"]));
    api.admin(Method::PUT, "/subscriptions/order.paid/mailer", json!({ "endpoint": endpoint }), 200).await;
    let all: BTreeSet<String> = (0..EVENTS).map(|n| format!("order-{n}")).collect();
    let events: Vec<_> = all.iter().map(|id| json!({ "eventId": id, "topic": "order.paid", "payload": 1 })).collect();
    api.admin(Method::POST, "/events/batch", json!({ "events": events }), 200).await;
    let (low, high): (BTreeSet<_>, BTreeSet<_>) = all.iter().cloned().partition(|id| shard_of(None, id) < 32);
    assert!(!low.is_empty() && !high.is_empty());

    let first = RelayProcess::start(&[&database], "low.log", &with(&settings, &["--shards", "0-31"]));
    let ids = called(&mut calls, low.len()).await;
    assert_eq!(ids.iter().cloned().collect::<BTreeSet<_>>(), low, "the first has its own, each once");
    for id in &high {
        let shown = api.admin(Method::GET, &format!("/events/{id}"), Value::Null, 200).await;
        assert_eq!(shown["deliveries"][0]["attempts"], 0, "{id} is not the first's");
    }
    let second = RelayProcess::start(&[&database], "high.log", &with(&settings, &["--shards", "32-63"]));
    let ids = called(&mut calls, high.len()).await;
    assert_eq!(ids.iter().cloned().collect::<BTreeSet<_>>(), high, "the second has the others, each once");
    first.stop();
    second.stop();
    assert!(calls.try_recv().is_err(), "nothing came twice");
    api.stop();
    database.drop().await;
}
