//! The broker agrees with the subscriptions: queues, bindings, and what is missing.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use postrider::prelude::*;
use postrider::transport::rabbitmq::Reconciler;
use postrider::{RabbitMq, Relay, RetryPolicy, Subscription, Via};
use postrider_proof::broker::VirtualHost;
use postrider_proof::proxy::Proxy;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::database::TIMEOUT;
use crate::rabbitmq::{Fixture, paid};

/// A running reconciler.
struct Running {
    reconciler: Reconciler,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<postrider::Result<()>>,
}

impl Running {
    fn start(reconciler: Reconciler) -> Self {
        let (stop, stopped) = oneshot::channel();
        let running = reconciler.clone().run(async { stopped.await.unwrap_or_default() });
        Self { reconciler, stop, ended: tokio::spawn(running) }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

fn subscription(topic: &str, consumer: &str) -> Subscription {
    Subscription::new(topic, consumer, Via::RabbitMq)
}

/// Queue, exchange and routing key of each binding.
async fn bindings(host: &VirtualHost) -> BTreeSet<String> {
    let listed: Vec<serde_json::Value> = serde_json::from_str(&host.list("bindings").await).unwrap();
    let text = |one: &serde_json::Value, field: &str| one[field].as_str().unwrap().to_owned();
    // Every queue is bound to the default exchange, which has no name.
    let listed = listed.iter().filter(|one| one["source"] != "");
    listed
        .map(|one| format!("{} {} {}", text(one, "destination"), text(one, "source"), text(one, "routing_key")))
        .collect()
}

async fn until_bound(host: &VirtualHost, expected: &[&str]) {
    let expected: BTreeSet<_> = expected.iter().map(ToString::to_string).collect();
    let mut bound = BTreeSet::new();
    let agree = async {
        while bound != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
            bound = bindings(host).await;
        }
    };
    if timeout(TIMEOUT, agree).await.is_err() {
        panic!("{bound:?}, not {expected:?}");
    }
}

async fn queues(host: &VirtualHost) -> BTreeSet<String> {
    let listed: Vec<serde_json::Value> = serde_json::from_str(&host.list("queues").await).unwrap();
    listed.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// D.2, D.11: a subscription makes its queue with retry queues, dead letters and binding; disabling or removing it, or naming
/// another routing key, unbinds it, and the messages in the queue stay.
#[tokio::test(flavor = "multi_thread")]
async fn queues_and_bindings_follow_the_subscriptions_on_rabbitmq() {
    let fixture = Fixture::fresh().await;
    let (store, host) = (&fixture.store, &fixture.host);
    let policy = RetryPolicy { max_attempts: 3, ..RetryPolicy::default() };
    let running = Running::start(fixture.rabbitmq.reconciler(store.clone()).retry(&policy));
    store.set_subscription(&subscription("order.paid", "mail")).await.unwrap();
    store.set_subscription(&subscription("*", "audit")).await.unwrap();
    let (mail, audit) = ("postrider.mail postrider.events order.paid", "postrider.audit postrider.events #");
    until_bound(host, &[mail, audit]).await;
    let expected = ["audit", "audit.dead", "audit.retry.2", "audit.retry.4"];
    let expected = expected.iter().flat_map(|name| [name.to_string(), name.replace("audit", "mail")]);
    assert_eq!(queues(host).await, expected.map(|name| format!("postrider.{name}")).collect());
    fixture.enqueue([paid(1)]).await;
    fixture.send_all().await;
    assert_eq!((fixture.queue("postrider.mail").await, fixture.queue("postrider.audit").await), (1, 1));

    store.set_subscription(&Subscription { enabled: false, ..subscription("order.paid", "mail") }).await.unwrap();
    until_bound(host, &[audit]).await;
    fixture.enqueue([paid(2)]).await;
    fixture.send_all().await;
    assert_eq!((fixture.queue("postrider.mail").await, fixture.queue("postrider.audit").await), (1, 2));

    let keyed = |key: &str| Subscription { routing_key: Some(key.into()), ..subscription("order.paid", "mail") };
    store.set_subscription(&keyed("eu.paid")).await.unwrap();
    until_bound(host, &[audit, "postrider.mail postrider.events eu.paid"]).await;
    store.set_subscription(&keyed("us.paid")).await.unwrap();
    until_bound(host, &[audit, "postrider.mail postrider.events us.paid"]).await;
    // Removed while no instance runs.
    running.stop().await;
    store.remove_subscription("order.paid", "mail").await.unwrap();
    store.remove_subscription("*", "audit").await.unwrap();
    let running = Running::start(fixture.rabbitmq.reconciler(store.clone()));
    until_bound(host, &[]).await;
    assert_eq!((fixture.queue("postrider.mail").await, fixture.queue("postrider.audit").await), (1, 2));
    running.stop().await;
    fixture.finish().await;
}

/// D.11: a binding that was removed by hand comes back, although no subscription changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_was_removed_from_rabbitmq_comes_back() {
    let fixture = Fixture::fresh().await;
    fixture.store.set_subscription(&subscription("order.paid", "mail")).await.unwrap();
    let running = Running::start(fixture.rabbitmq.reconciler(fixture.store.clone()).again(Duration::from_millis(50)));
    let bound = ["postrider.mail postrider.events order.paid"];
    until_bound(&fixture.host, &bound).await;
    let (queue, exchange) = ("postrider.mail".into(), "postrider.events".into());
    fixture.channel.queue_unbind(queue, exchange, "order.paid".into(), FieldTable::default()).await.unwrap();
    until_bound(&fixture.host, &bound).await;
    running.stop().await;
    fixture.finish().await;
}

/// D.11: an exchange that does not exist, and a queue with other settings, are problems of their subscriptions alone. They
/// are shown, and end when their cause ends.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_bound_on_rabbitmq_is_shown() {
    let fixture = Fixture::fresh().await;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    fixture.channel.queue_declare("postrider.books".into(), durable, FieldTable::default()).await.unwrap();
    let billing = Subscription { exchange: Some("billing".into()), ..subscription("order.paid", "mail") };
    for one in [&billing, &subscription("order.sent", "mail"), &subscription("order.paid", "books")] {
        fixture.store.set_subscription(one).await.unwrap();
    }
    let running = Running::start(fixture.rabbitmq.reconciler(fixture.store.clone()));
    let reconciler = running.reconciler.clone();
    let problem = async |topic: &str, consumer: &str, wanted: Option<&str>| {
        let is_so = async {
            while match (reconciler.problem(topic, consumer), wanted) {
                (Some(problem), Some(part)) => !problem.contains(part),
                (None, None) => false,
                _ => true,
            } {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(timeout(TIMEOUT, is_so).await.is_ok(), "{:?}", reconciler.problem(topic, consumer));
    };
    problem("order.paid", "mail", Some("the exchange \"billing\" cannot be used")).await;
    problem("order.paid", "books", Some("inequivalent arg")).await;
    problem("order.sent", "mail", None).await;
    let sent = "postrider.mail postrider.events order.sent";
    until_bound(&fixture.host, &[sent]).await;

    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    fixture
        .channel
        .exchange_declare("billing".into(), ExchangeKind::Topic, durable, FieldTable::default())
        .await
        .unwrap();
    fixture.channel.queue_delete("postrider.books".into(), QueueDeleteOptions::default()).await.unwrap();
    let books = "postrider.books postrider.events order.paid";
    until_bound(&fixture.host, &[sent, books, "postrider.mail billing order.paid"]).await;
    problem("order.paid", "mail", None).await;
    problem("order.paid", "books", None).await;
    running.stop().await;
    fixture.finish().await;
}

/// D.11: one instance at a time works; another continues when it stops.
#[tokio::test(flavor = "multi_thread")]
async fn one_instance_at_a_time_reconciles_rabbitmq() {
    let fixture = Fixture::fresh().await;
    let start = |owner| Running::start(fixture.rabbitmq.reconciler(fixture.store.clone()).owner(owner));
    let until_held_by = async |owner: &str| {
        let held = async {
            loop {
                let holdings = fixture.store.holdings().await.unwrap();
                let owners: Vec<_> = holdings.iter().filter(|one| one.name == "postrider.topology").collect();
                if let [holding] = owners[..]
                    && holding.owner.starts_with(owner)
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(TIMEOUT, held).await.unwrap();
    };
    let first = start("first");
    until_held_by("first").await;
    let second = start("second");
    fixture.store.set_subscription(&subscription("a", "mail")).await.unwrap();
    until_bound(&fixture.host, &["postrider.mail postrider.events a"]).await;
    until_held_by("first").await;
    first.stop().await;
    until_held_by("second").await;
    fixture.store.set_subscription(&subscription("b", "mail")).await.unwrap();
    until_bound(&fixture.host, &["postrider.mail postrider.events a", "postrider.mail postrider.events b"]).await;
    second.stop().await;
    fixture.finish().await;
}

/// D.11: what disappears from the broker is declared again after a reconnect, and after an event came back unroutable.
#[tokio::test(flavor = "multi_thread")]
async fn lost_queues_of_rabbitmq_come_back() {
    let fixture = Fixture::fresh().await;
    let address: SocketAddr =
        fixture.host.url().rsplit_once('@').unwrap().1.split('/').next().unwrap().parse().unwrap();
    let proxy = Proxy::to(address).await.unwrap();
    let rabbitmq =
        RabbitMq::new(&fixture.host.url().replace(&address.to_string(), &proxy.address().to_string())).unwrap();
    fixture.store.set_subscription(&subscription("order.paid", "mail")).await.unwrap();
    let running = Running::start(rabbitmq.reconciler(fixture.store.clone()));
    let mail = "postrider.mail postrider.events order.paid";
    until_bound(&fixture.host, &[mail]).await;
    let delete = async || {
        fixture.channel.queue_delete("postrider.mail".into(), QueueDeleteOptions::default()).await.unwrap();
        assert!(bindings(&fixture.host).await.is_empty());
    };
    delete().await;
    proxy.reset();
    until_bound(&fixture.host, &[mail]).await;

    delete().await;
    let relay = Relay::new(fixture.store.clone(), rabbitmq.publisher()).run(std::future::pending());
    let relay = tokio::spawn(relay);
    fixture.enqueue([paid(1)]).await;
    fixture.database.until("SELECT count(*) FROM postrider_delivery", 0).await;
    let found = fixture.find("order-1").await;
    let tries: Vec<_> =
        found.consumptions.iter().filter(|one| one.consumer == "rabbitmq").map(|one| one.success).collect();
    assert_eq!(tries, [Some(false), Some(true)], "bound before the second try");
    assert_eq!(fixture.queue("postrider.mail").await, 1);
    relay.abort();
    drop(relay.await.err());
    running.stop().await;
    fixture.finish().await;
}

/// D.2, D.4: nothing is published on a connection before every subscription is bound, so that a subscription that was set
/// while the broker was away misses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn queues_are_bound_before_anything_is_published_on_rabbitmq() {
    let fixture = Fixture::fresh().await;
    for consumer in ["mail", "books"] {
        fixture.store.set_subscription(&subscription("order.paid", consumer)).await.unwrap();
    }
    fixture.enqueue([paid(1)]).await;
    // It does not run: the publisher alone asks for it.
    let reconciler = fixture.rabbitmq.reconciler(fixture.store.clone());
    let relay = Relay::new(fixture.store.clone(), fixture.rabbitmq.publisher().after(reconciler));
    relay.drain().await.unwrap();
    let found = fixture.find("order-1").await;
    assert!(found.deliveries.is_empty(), "{found:?}");
    assert_eq!((fixture.queue("postrider.mail").await, fixture.queue("postrider.books").await), (1, 1));
    fixture.finish().await;
}
