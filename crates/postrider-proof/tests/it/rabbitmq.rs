//! Events through RabbitMQ, and the broker's faults and limits.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use postrider::alert::{Alarm, Alert};
use postrider::prelude::*;
use postrider::presence::BrokerState;
use postrider::store::sqlite::SqliteStore;
use postrider::store::{Instance, LIVE, Record, Redriven};
use postrider::transport::rabbitmq::ReceiverOptions;
use postrider::transport::rabbitmq::topology::Binding;
use postrider::{
    Consumer, Draft, Event, Failure, Inbox, LaneOptions, Outbox, OutsideConsumer, RabbitMq, Received, Relay,
    RetryPolicy, Subscription, Via,
};
use postrider_proof::broker::{PrivateBroker, VirtualHost};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::database::{Database, TIMEOUT};

#[derive(Serialize, Deserialize)]
struct Paid {
    order: i64,
}

impl Event for Paid {
    const TOPIC: &'static str = "order.paid";
}

/// Sends the order to the test and returns the result that the case defines.
struct Mail {
    sender: mpsc::UnboundedSender<i64>,
    answer: fn(&Received<Paid>) -> Result<(), Failure>,
}

impl OutsideConsumer for Mail {
    const NAME: &'static str = "mail";
    type Event = Paid;

    async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
        self.sender.send(paid.order)?;
        (self.answer)(&paid)
    }
}

fn mail(answer: fn(&Received<Paid>) -> Result<(), Failure>) -> (Mail, mpsc::UnboundedReceiver<i64>) {
    let (sender, received) = mpsc::unbounded_channel();
    (Mail { sender, answer }, received)
}

struct Alarms(mpsc::UnboundedSender<Alarm>);

#[async_trait]
impl Alert for Alarms {
    async fn alert(&self, alarm: &Alarm) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.0.send(alarm.clone())?)
    }
}

/// One database, one virtual host, and a direct connection to it.
pub(crate) struct Fixture {
    pub(crate) database: Database,
    pub(crate) store: SqliteStore,
    pub(crate) host: VirtualHost,
    pub(crate) rabbitmq: RabbitMq,
    pub(crate) channel: Channel,
    connection: Connection,
}

impl Fixture {
    pub(crate) async fn fresh() -> Self {
        let (database, host) = (Database::sqlite().await, VirtualHost::fresh().await);
        let store = SqliteStore::connect(database.url()).await.unwrap();
        let connection = Connection::connect(host.url(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let rabbitmq = RabbitMq::new(host.url()).unwrap();
        Self { database, store, host, rabbitmq, channel, connection }
    }

    pub(crate) async fn enqueue(&self, drafts: impl IntoIterator<Item = Draft>) {
        let mut tx = self.store.begin().await.unwrap();
        for draft in drafts {
            Outbox::new(self.store.clone()).enqueue(&mut tx, draft).await.unwrap();
        }
        self.store.commit(tx).await.unwrap();
    }

    pub(crate) async fn find(&self, event: &str) -> Record {
        self.store.find(event).await.unwrap().unwrap()
    }

    /// A relay that tries three times, without a delay.
    pub(crate) fn relay(&self) -> Relay {
        let retry =
            RetryPolicy { base: Duration::from_millis(1), factor: 1.0, max_attempts: 3, ..RetryPolicy::default() };
        let publisher =
            self.rabbitmq.publisher().every_topic().options(LaneOptions { retry, ..LaneOptions::default() });
        Relay::new(self.store.clone(), publisher)
    }

    /// Publishes until no delivery waits.
    pub(crate) async fn send_all(&self) {
        let everything = "SELECT count(*) FROM postrider_delivery WHERE NOT dead";
        loop {
            self.relay().drain().await.unwrap();
            if self.database.number(everything).await == 0 {
                return;
            }
        }
    }

    pub(crate) async fn queue(&self, name: &str) -> u32 {
        let options = QueueDeclareOptions { durable: true, passive: true, ..Default::default() };
        self.channel.queue_declare(name.into(), options, FieldTable::default()).await.unwrap().message_count()
    }

    /// Takes the next message from a queue. Returns its body and one header.
    async fn take(&self, queue: &str, header: &str) -> (String, String) {
        let message = loop {
            match self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap() {
                Some(message) => break message,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let headers = message.properties.headers().clone().unwrap_or_default();
        let value = match headers.inner().get(header) {
            Some(AMQPValue::LongString(text)) => text.to_string(),
            Some(AMQPValue::LongLongInt(n)) => n.to_string(),
            other => format!("{other:?}"),
        };
        (String::from_utf8_lossy(&message.data).into_owned(), value)
    }

    pub(crate) async fn finish(self) {
        self.host.remove().await;
        drop(self.store);
        self.database.finish().await;
    }
}

pub(crate) fn paid(order: i64) -> Draft {
    Draft::of(&Paid { order }).unwrap().event_id(format!("order-{order}"))
}

/// F47, D.11: without a queue, the event is retried and then becomes dead with the reason. After a queue is bound, a
/// redrive sends it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unroutable_event_is_not_sent_by_rabbitmq() {
    let fixture = Fixture::fresh().await;
    fixture.store.register(&Subscription::new("*", "rabbitmq", Via::RabbitMq)).await.unwrap();
    fixture.enqueue([paid(1)]).await;
    fixture.send_all().await;
    let found = fixture.find("order-1").await;
    let delivery = &found.deliveries[0];
    assert_eq!((delivery.status.as_str(), delivery.attempts), ("DEAD", 3));
    let reason = delivery.last_error.clone().unwrap();
    assert!(reason.contains("no queue is bound") && reason.contains("order.paid"), "{reason}");
    let failures: Vec<_> = found.consumptions.iter().map(|one| (one.success, one.code.as_deref())).collect();
    assert_eq!(failures, [(Some(false), Some("unroutable")); 3]);

    let (consumer, mut received) = mail(|_| Ok(()));
    let receiver = fixture.rabbitmq.receiver(Inbox::new(fixture.store.clone()).outside(consumer));
    receiver.declare().await.unwrap();
    assert_eq!(fixture.store.redrive("order-1", "rabbitmq", None).await.unwrap(), Redriven::Due);
    fixture.send_all().await;
    assert!(fixture.find("order-1").await.deliveries.is_empty(), "sent");
    let first = async { assert_eq!(timeout(TIMEOUT, received.recv()).await.unwrap(), Some(1)) };
    receiver.run(first).await.unwrap();
    fixture.finish().await;
}

/// F39, F48: text written by plain SQL may exceed a frame of the broker. It is sent, and the connection stays open.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_any_length_are_sent_by_rabbitmq() {
    let fixture = Fixture::fresh().await;
    let (consumer, mut received) = mail(|_| Ok(()));
    let receiver = fixture.rabbitmq.receiver(Inbox::new(fixture.store.clone()).outside(consumer));
    receiver.declare().await.unwrap();
    fixture.store.register(&Subscription::new("*", "rabbitmq", Via::RabbitMq)).await.unwrap();
    let long = "INSERT INTO postrider_event (event_id, topic, payload, aggregate_type, aggregate_id, initiator)
        SELECT 'long', 'order.paid', '{}', long, long, json_object('service', long) FROM (SELECT hex(zeroblob(100000)) AS long)";
    fixture.database.execute(long).await;
    fixture.store.route(10).await.unwrap();
    fixture.enqueue([paid(1)]).await;

    fixture.send_all().await;
    for event in ["long", "order-1"] {
        assert!(fixture.find(event).await.deliveries.is_empty(), "{event} is sent");
    }
    let first = async { assert_eq!(timeout(TIMEOUT, received.recv()).await.unwrap(), Some(1)) };
    receiver.run(first).await.unwrap();
    fixture.finish().await;
}

/// E.1, F48: an event may name its exchange and routing key. An event with an unknown exchange fails alone, however
/// many are sent with it.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_of_the_events_own_is_used_by_rabbitmq() {
    let fixture = Fixture::fresh().await;
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let none = FieldTable::default;
    fixture.channel.exchange_declare("billing".into(), ExchangeKind::Direct, durable, none()).await.unwrap();
    let (consumer, mut received) = mail(|_| Ok(()));
    let binding = Binding { exchange: "billing".into(), routing_key: "eu.paid".into() };
    let receiver = fixture.rabbitmq.receiver(Inbox::new(fixture.store.clone()).outside(consumer)).bind("mail", binding);
    receiver.declare().await.unwrap();
    fixture.store.register(&Subscription::new("*", "rabbitmq", Via::RabbitMq)).await.unwrap();

    let mut drafts: Vec<_> = (1..=40).map(paid).collect();
    drafts.push(paid(41).route("billing", "eu.paid"));
    drafts.push(paid(42).route("nowhere", "eu.paid"));
    fixture.enqueue(drafts).await;
    fixture.send_all().await;
    let lost = fixture.find("order-42").await;
    assert_eq!((lost.deliveries[0].status.as_str(), lost.deliveries[0].attempts), ("DEAD", 3));
    assert!(lost.deliveries[0].last_error.as_deref().unwrap().contains("nowhere"), "{lost:?}");
    let others = fixture.database.number("SELECT count(*) FROM postrider_consumption WHERE NOT success").await;
    assert_eq!(others, 3, "the others have not failed once");

    // The broker may close the channel before it confirms what it accepted. Those messages are sent twice.
    let all = async {
        let mut orders = BTreeSet::new();
        while orders.len() < 41 {
            orders.insert(timeout(TIMEOUT, received.recv()).await.unwrap().unwrap());
        }
        assert_eq!(orders, (1..=41).collect());
    };
    receiver.run(all).await.unwrap();
    fixture.finish().await;
}

/// The message: the envelope with `sentAt`, persistent, with its id, its trace and its CloudEvents attributes.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_rabbitmq_follows_the_contract() {
    let fixture = Fixture::fresh().await;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    fixture.rabbitmq.publisher(); // opens no connection yet
    assert_eq!(fixture.rabbitmq.state(), BrokerState::Unused);
    fixture.relay().drain().await.unwrap();
    fixture.channel.queue_declare("spy".into(), durable, FieldTable::default()).await.unwrap();
    let (options, none) = (QueueBindOptions::default(), FieldTable::default());
    fixture.channel.queue_bind("spy".into(), "postrider.events".into(), "order.*".into(), options, none).await.unwrap();
    fixture.enqueue([paid(7).key("k")]).await;
    fixture.send_all().await;
    let message = fixture.channel.basic_get("spy".into(), BasicGetOptions { no_ack: true }).await.unwrap().unwrap();
    let body: serde_json::Value = serde_json::from_slice(&message.data).unwrap();
    assert_eq!((&body["eventId"], &body["topic"]), (&"order-7".into(), &"order.paid".into()));
    assert_eq!((&body["payload"]["order"], &body["key"]), (&7.into(), &"k".into()));
    assert!(body["sentAt"].is_string() && body["occurredAt"].is_string(), "{body}");
    let properties = &message.properties;
    assert_eq!(properties.message_id().as_ref().map(ToString::to_string).as_deref(), Some("order-7"));
    assert_eq!(*properties.delivery_mode(), Some(2));
    let headers = properties.headers().clone().unwrap();
    for header in ["traceparent", "cloudEvents_id", "cloudEvents_type", "cloudEvents_source", "cloudEvents_specversion"]
    {
        assert!(headers.contains_key(header), "{header}");
    }
    // F63: of an event that came as a CloudEvent, its own id, source, schema and extensions.
    let origin = r#"{"id":"A-1","source":"/shop","dataschema":"/schema","extensions":{"flag":true,"name":"x"}}"#;
    fixture.enqueue([paid(8).metadata_json(format!(r#"{{"cloudEvent":{origin}}}"#))]).await;
    fixture.send_all().await;
    let message = fixture.channel.basic_get("spy".into(), BasicGetOptions { no_ack: true }).await.unwrap().unwrap();
    assert_eq!(message.properties.message_id().as_ref().map(ToString::to_string).as_deref(), Some("order-8"));
    let headers = message.properties.headers().clone().unwrap();
    for (name, value) in
        [("id", "A-1"), ("source", "/shop"), ("dataschema", "/schema"), ("flag", "true"), ("name", "x")]
    {
        let header = headers.inner().get(format!("cloudEvents_{name}").as_str());
        assert_eq!(header, Some(&AMQPValue::LongString(value.into())), "{name}");
    }
    assert_eq!(fixture.rabbitmq.state(), BrokerState::Connected);
    fixture.finish().await;
}

/// Poison messages: one that is not an event, and one that was redelivered too often, are moved to the dead queue with
/// a reason, and the queue continues. E.1: reasons are cut at 1,000 characters, not inside a character.
#[tokio::test(flavor = "multi_thread")]
async fn poison_in_a_queue_of_rabbitmq_is_parked() {
    let fixture = Fixture::fresh().await;
    let (consumer, mut received) = mail(|paid| match paid.order {
        2 => Err(Failure::reject("错".repeat(2_000))),
        _ => Ok(()),
    });
    let (alert, mut alarms) = mpsc::unbounded_channel();
    let receiver =
        fixture.rabbitmq.receiver(Inbox::new(fixture.store.clone()).outside(consumer)).also_alert(Alarms(alert));
    receiver.declare().await.unwrap();
    let channel = fixture.connection.create_channel().await.unwrap();
    let publish = |body: &'static [u8]| {
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        channel.basic_publish("".into(), "postrider.mail".into(), options, body, properties)
    };
    publish(b"\xff no event").await.unwrap();
    let killer =
        br#"{"eventId":"killer","topic":"order.paid","payload":{"order":9},"occurredAt":"2026-01-01T00:00:00Z"}"#;
    publish(killer).await.unwrap();

    // A consumer that requeues every message, again and again.
    let mut lazy = channel
        .basic_consume("postrider.mail".into(), "lazy".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await
        .unwrap();
    for _ in 0..40 {
        let message = timeout(TIMEOUT, lazy.next()).await.unwrap().unwrap().unwrap();
        message.acker.nack(BasicNackOptions { requeue: true, ..Default::default() }).await.unwrap();
    }
    channel.close(200, "done".into()).await.unwrap();

    fixture.enqueue([paid(1), paid(2), paid(3)]).await;
    fixture.store.register(&Subscription::new("*", "rabbitmq", Via::RabbitMq)).await.unwrap();
    fixture.send_all().await;
    let parked = async {
        let mut dead = Vec::new();
        while dead.len() < 3 {
            let Alarm::Dead { event_id, error, .. } = timeout(TIMEOUT, alarms.recv()).await.unwrap().unwrap() else {
                continue;
            };
            dead.push((event_id, error.chars().take(20).collect::<String>()));
        }
        dead.sort();
        assert_eq!(dead[0].0, "", "it has no id");
        assert!(dead[0].1.starts_with("the message is no ev"), "{dead:?}");
        assert_eq!((dead[1].0.as_str(), dead[1].1.as_str()), ("killer", "given up: it was han"));
        assert_eq!(dead[2].0, "order-2");
        let mut orders = [0; 3];
        for order in &mut orders {
            *order = timeout(TIMEOUT, received.recv()).await.unwrap().unwrap();
        }
        orders.sort_unstable();
        assert_eq!(orders, [1, 2, 3], "the killer was not called for");
    };
    receiver.run(parked).await.unwrap();
    assert_eq!(fixture.queue("postrider.mail").await, 0);
    let mut reasons = Vec::new();
    for _ in 0..3 {
        reasons.push(fixture.take("postrider.mail.dead", "x-postrider-reason").await);
    }
    let cut = reasons.iter().find(|(body, _)| body.contains("order-2")).unwrap();
    assert_eq!(cut.1.chars().count(), 1_000);
    assert!(cut.1.chars().all(|c| c == '错' || c == '…'), "{}", cut.1);
    fixture.finish().await;
}

/// An existing queue with our name and other settings is reported with the remedy.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_rabbitmq_with_other_settings_is_explained() {
    let fixture = Fixture::fresh().await;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    // Declared without our arguments.
    fixture.channel.queue_declare("postrider.mail".into(), durable, FieldTable::default()).await.unwrap();
    let (consumer, _) = mail(|_| Ok(()));
    let receiver = fixture.rabbitmq.receiver(Inbox::new(fixture.store.clone()).outside(consumer));
    let refused = receiver.run(std::future::pending()).await.unwrap_err().to_string();
    for part in ["postrider.mail", "inequivalent arg", "delete it", "another name"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    fixture.finish().await;
}

struct Books<const N: usize>;

macro_rules! books {
    ($($n:literal $name:literal)*) => {
        $(impl Consumer<SqliteStore> for Books<$n> {
            const NAME: &'static str = $name;
            type Event = Paid;

            async fn handle(&self, tx: &mut SqliteConnection, paid: Received<Paid>) -> Result<(), Failure> {
                let name = paid.order.to_string();
                let add = sqlx::query("UPDATE counter SET n = n + 1 WHERE name = ?1").bind(name);
                match add.execute(tx).await?.rows_affected() {
                    1 => Ok(()),
                    _ => Err("no such counter".into()),
                }
            }
        })*
    };
}
books!(0 "ledger" 1 "stock");

/// E.3, D.11: three services with one database each. The producing service has no subscriptions of its own; the broker
/// gets all events.
#[tokio::test(flavor = "multi_thread")]
async fn consumers_in_other_databases_are_reached_through_rabbitmq() {
    const ORDERS: i64 = 200;
    let fixture = Fixture::fresh().await;
    let (ledger, stock) = (Database::sqlite().await, Database::sqlite().await);
    let numbers = (1..=ORDERS).map(|n| format!("('{n}', 0)")).collect::<Vec<_>>().join(",");
    let mut stores = Vec::new();
    for database in [&ledger, &stock] {
        database.execute(&format!("INSERT INTO counter (name, n) VALUES {numbers}")).await;
        stores.push(SqliteStore::connect(database.url()).await.unwrap());
    }
    let first = fixture.rabbitmq.receiver(Inbox::new(stores[0].clone()).consumer(Books::<0>));
    let second = fixture.rabbitmq.receiver(Inbox::new(stores[1].clone()).consumer(Books::<1>));
    first.declare().await.unwrap();
    second.declare().await.unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(());
    let wait = || {
        let mut stopped = stopped.clone();
        async move { drop(stopped.changed().await) }
    };
    let working =
        [tokio::spawn(first.run(wait())), tokio::spawn(second.run(wait())), tokio::spawn(fixture.relay().run(wait()))];
    fixture.enqueue((1..=ORDERS).map(paid)).await;
    for database in [&ledger, &stock] {
        database.until("SELECT count(*) FROM counter WHERE n = 1", ORDERS).await;
        assert_eq!(database.number("SELECT count(*) FROM postrider_inbox").await, ORDERS);
        assert_eq!(database.number("SELECT count(*) FROM postrider_event").await, 0, "the events are elsewhere");
    }
    stop.send(()).unwrap();
    for one in working {
        one.await.unwrap().unwrap();
    }
    assert_eq!(fixture.database.number("SELECT count(*) FROM counter WHERE n = 1").await, 0);
    drop(stores);
    ledger.finish().await;
    stock.finish().await;
    fixture.finish().await;
}

/// D.11: every attempt of a remote consumer is reported and stored with the event.
#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_rabbitmq_are_stored() {
    let fixture = Fixture::fresh().await;
    fixture.store.set_subscription(&Subscription::new("order.paid", "mail", Via::RabbitMq)).await.unwrap();
    let remote = Database::sqlite().await;
    let remote_store = SqliteStore::connect(remote.url()).await.unwrap();
    let (consumer, mut received) = mail(|paid| match (paid.order, paid.attempt()) {
        (1, 1) => Err(Failure::retry("the mail server is down").code("mail")),
        (2, _) => Err(Failure::reject("no such address")),
        _ => Ok(()),
    });
    let retry = RetryPolicy { base: Duration::from_millis(1), factor: 1.0, ..RetryPolicy::default() };
    let inbox =
        Inbox::new(remote_store.clone()).outside_with(consumer, LaneOptions { retry, ..LaneOptions::default() });
    let options = ReceiverOptions { receipts: true, ..ReceiverOptions::default() };
    let receiver = fixture.rabbitmq.receiver(inbox).options(options);
    receiver.declare().await.unwrap();
    let receiving = tokio::spawn(receiver.run(std::future::pending()));
    let collecting = tokio::spawn(fixture.rabbitmq.receipts(fixture.store.clone()).run(std::future::pending()));
    fixture.enqueue([paid(1), paid(2)]).await;
    fixture.send_all().await;
    for _ in 0..3 {
        timeout(TIMEOUT, received.recv()).await.unwrap().unwrap();
    }
    let reports = "SELECT count(*) FROM postrider_consumption WHERE consumer = 'mail' AND attempt > 0";
    fixture.database.until(reports, 3).await;
    let of = |found: Record| -> Vec<_> {
        let attempts = found.consumptions.into_iter().filter(|one| one.consumer == "mail" && one.attempt > 0);
        attempts.map(|one| (one.attempt, one.success, one.will_retry, one.error, one.code)).collect()
    };
    assert_eq!(
        of(fixture.find("order-1").await),
        [
            (1, Some(false), true, Some("the mail server is down".into()), Some("mail".into())),
            (2, Some(true), false, None, None)
        ]
    );
    assert_eq!(of(fixture.find("order-2").await), [(1, Some(false), false, Some("no such address".into()), None)]);
    receiving.abort();
    collecting.abort();
    drop(remote_store);
    remote.finish().await;
    fixture.finish().await;
}

/// F46: a broker with a memory alarm accepts nothing. Nothing hangs, the state is reported, and sending continues when
/// the alarm clears.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_rabbitmq_is_reported_and_waited_for() {
    let database = Database::sqlite().await;
    let store = SqliteStore::connect(database.url()).await.unwrap();
    let broker = PrivateBroker::start().await;
    let rabbitmq = RabbitMq::new(&format!("amqp://guest:guest@127.0.0.1:{}/%2f", broker.port())).unwrap();
    let (consumer, mut received) = mail(|_| Ok(()));
    let receiver = rabbitmq.receiver(Inbox::new(store.clone()).outside(consumer));
    receiver.declare().await.unwrap();
    let receiving = tokio::spawn(receiver.run(std::future::pending()));
    let relay = tokio::spawn(Relay::new(store.clone(), rabbitmq.publisher().every_topic()).run(std::future::pending()));
    let enqueue = async |order| {
        let mut tx = store.begin().await.unwrap();
        Outbox::new(store.clone()).enqueue(&mut tx, paid(order)).await.unwrap();
        store.commit(tx).await.unwrap();
    };
    enqueue(1).await;
    assert_eq!(timeout(TIMEOUT, received.recv()).await.unwrap(), Some(1));
    broker.raise_memory_alarm().await;
    let mut last = 1;
    let blocked = async {
        // The broker blocks publishers only after its next memory check.
        while rabbitmq.state() != BrokerState::Blocked {
            last += 1;
            enqueue(last).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, blocked).await.expect("the state is shown");
    let shown = async |word| {
        let is_shown = |one: &Instance| one.running.broker.as_ref().is_some_and(|report| report.state == word);
        while !store.instances(LIVE).await.unwrap().iter().any(is_shown) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, shown(BrokerState::Blocked)).await.expect("other processes see it");
    last += 1;
    enqueue(last).await;
    broker.clear_memory_alarm().await;
    let mut orders = Vec::new();
    for _ in 2..=last {
        orders.push(timeout(TIMEOUT, received.recv()).await.unwrap().unwrap());
    }
    orders.sort_unstable();
    assert!(orders.into_iter().eq(2..=last));
    database.until("SELECT count(*) FROM postrider_delivery", 0).await;
    assert_eq!(database.number("SELECT count(*) FROM postrider_consumption WHERE NOT success").await, 0);
    timeout(TIMEOUT, shown(BrokerState::Connected)).await.expect("and that it is over");
    relay.abort();
    receiving.abort();
    drop((relay.await.err(), receiving.await.err(), store));
    database.finish().await;
}

/// Takes long for the first event only.
struct Slow {
    sender: mpsc::UnboundedSender<i64>,
    takes: Duration,
    seen: AtomicBool,
}

impl Consumer<SqliteStore> for Slow {
    const NAME: &'static str = "slow";
    type Event = Paid;

    async fn handle(&self, tx: &mut SqliteConnection, paid: Received<Paid>) -> Result<(), Failure> {
        self.sender.send(paid.order)?;
        if !self.seen.swap(true, Ordering::Relaxed) {
            tokio::time::sleep(self.takes).await;
        }
        sqlx::query("UPDATE counter SET n = n + 1 WHERE name = 'slow'").execute(tx).await?;
        Ok(())
    }
}

/// F49: a handler that exceeds the broker's consumer timeout loses its channel. The receiver opens another one, the
/// redelivered message finds its inbox row, and later messages are delivered.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_exceeds_the_consumer_timeout_of_rabbitmq_has_one_effect() {
    let database = Database::sqlite().await;
    let store = SqliteStore::connect(database.url()).await.unwrap();
    database.execute("INSERT INTO counter VALUES ('slow', 0)").await;
    let broker = PrivateBroker::start().await;
    broker.set_consumer_timeout(Duration::from_millis(300)).await;
    let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", broker.port());
    let rabbitmq = RabbitMq::new(&url).unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let slow = Slow { sender, takes: Duration::from_secs(2), seen: AtomicBool::new(false) };
    let receiver = rabbitmq.receiver(Inbox::new(store.clone()).consumer(slow));
    receiver.declare().await.unwrap();
    let receiving = tokio::spawn(receiver.run(std::future::pending()));
    let relay = tokio::spawn(Relay::new(store.clone(), rabbitmq.publisher().every_topic()).run(std::future::pending()));
    let enqueue = async |order| {
        let mut tx = store.begin().await.unwrap();
        Outbox::new(store.clone()).enqueue(&mut tx, paid(order)).await.unwrap();
        store.commit(tx).await.unwrap();
    };
    enqueue(1).await;
    assert_eq!(timeout(TIMEOUT, received.recv()).await.unwrap(), Some(1));
    enqueue(2).await;
    database.until("SELECT n FROM counter WHERE name = 'slow'", 2).await;
    assert!(broker.has_logged("delivery acknowledgement on channel"), "the channel was closed meanwhile");
    // Only the second event calls the handler: the first is a duplicate by now, however often it was redelivered.
    assert_eq!(timeout(TIMEOUT, received.recv()).await.unwrap(), Some(2));
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let passive = QueueDeclareOptions { durable: true, passive: true, ..Default::default() };
    for queue in ["postrider.slow", "postrider.slow.dead"] {
        let empty = async {
            while channel.queue_declare(queue.into(), passive, FieldTable::default()).await.unwrap().message_count() > 0
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(TIMEOUT, empty).await.expect("nothing waits and no message is dead");
    }
    assert_eq!(database.number("SELECT n FROM counter WHERE name = 'slow'").await, 2);
    relay.abort();
    receiving.abort();
    drop((relay.await.err(), receiving.await.err(), store));
    database.finish().await;
}
