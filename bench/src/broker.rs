//! The relay to RabbitMQ, compared with a bare publisher: the same message and queue, and the same number of
//! unconfirmed messages.

use std::collections::VecDeque;

use async_trait::async_trait;
use futures_util::FutureExt;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};
use postrider::prelude::*;
use postrider::store::History;
use postrider::transport::rabbitmq::TOGETHER;
use postrider::transport::rabbitmq::topology::EXCHANGE;
use postrider::transport::{self, Lane, Parcel, Transport};
use postrider::{LaneOptions, RabbitMq, Subscription, Via};
use tokio::sync::Mutex;

use crate::engine::{Goal, RELAYS, relay};
use crate::report::Round;
use crate::setup::{LANE, Scratch, TOPIC, fill};
use crate::turns::{Turn, turns_of};
use crate::{Outcome, Size};

/// The number of channels, and of unconfirmed messages per channel.
const CHANNELS: usize = 4;
const WINDOW: usize = 100;

/// A queue of this benchmark.
struct Queue {
    name: String,
    connection: Connection,
    channel: Channel,
}

impl Queue {
    async fn new(url: &str) -> Outcome<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let name = format!("bench.{}", uuid::Uuid::new_v4().simple());
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, durable, FieldTable::default()).await?;
        let mut quorum = FieldTable::default();
        quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(name.as_str().into(), durable, quorum).await?;
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        channel.queue_bind(name.as_str().into(), EXCHANGE.into(), TOPIC.into(), options, none).await?;
        Ok(Self { name, connection, channel })
    }

    /// One of the messages, so that the bare publisher sends the same.
    async fn message(&self) -> Outcome<(Vec<u8>, BasicProperties)> {
        let got = self.channel.basic_get(self.name.as_str().into(), BasicGetOptions { no_ack: true }).await?;
        let got = got.ok_or("nothing was published")?;
        Ok((got.delivery.data, got.delivery.properties))
    }

    async fn purge(&self) -> Outcome<u32> {
        Ok(self.channel.queue_purge(self.name.as_str().into(), QueuePurgeOptions::default()).await?)
    }

    async fn remove(self) -> Outcome<()> {
        self.channel.queue_delete(self.name.as_str().into(), QueueDeleteOptions::default()).await?;
        Ok(())
    }
}

/// A transport that counts its deliveries.
struct Counted<T>(T, Goal);

#[async_trait]
impl<T: Transport> Transport for Counted<T> {
    fn lanes(&self) -> Vec<Lane> {
        self.0.lanes()
    }

    async fn prepare(&self, store: &dyn Store) -> postrider::Result<()> {
        self.0.prepare(store).await
    }

    async fn deliver(&self, lane: &Lane, parcels: &[Parcel]) -> Vec<transport::Outcome> {
        let delivered = self.0.deliver(lane, parcels).await;
        self.1.count(delivered.iter().filter(|delivered| **delivered == transport::Outcome::Done).count());
        delivered
    }
}

/// Publishes from memory as fast as the broker confirms.
async fn bare(queue: &Queue, events: usize, body: &[u8], properties: &BasicProperties) -> Outcome<Turn> {
    let mut channels = Vec::new();
    for _ in 0..CHANNELS {
        let channel = queue.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        channels.push(channel);
    }
    let publishing = channels.iter().map(|channel| async move {
        let one = || async {
            let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
            let sent = channel.basic_publish(EXCHANGE.into(), TOPIC.into(), mandatory, body, properties.clone());
            sent.await?.await
        };
        let mut left = events / CHANNELS;
        // Awaited in order: one confirm covers many messages, so a wake-up per message would be wasted.
        let mut unconfirmed = VecDeque::new();
        loop {
            while left > 0 && unconfirmed.len() < WINDOW {
                let mut sent = Box::pin(one());
                assert!((&mut sent).now_or_never().is_none(), "it is in line to be written");
                unconfirmed.push_back(sent);
                left -= 1;
            }
            match unconfirmed.pop_front() {
                Some(sent) => assert_eq!(sent.await?, Confirmation::Ack(None)),
                None => return Outcome::Ok(()),
            }
        }
    });
    Turn::time(async { futures_util::future::try_join_all(publishing).await.map(|_| events) }).await
}

pub(crate) async fn postgres_to_rabbitmq(scratch: &Scratch, size: Size) -> Outcome<Vec<Round>> {
    let url = std::env::var("POSTRIDER_TEST_RABBITMQ")
        .map_err(|_| "POSTRIDER_TEST_RABBITMQ is not set: run `make bench`, which starts the servers")?;
    let queue = Queue::new(&url).await?;
    let rabbitmq = RabbitMq::new(&url)?;
    let store = scratch.postgres_store("to_rabbitmq").await?;
    store.remove_subscription(TOPIC, LANE).await?;
    store.set_subscription(&Subscription::new(TOPIC, "rabbitmq", Via::RabbitMq)).await?;
    let window = CHANNELS * WINDOW;
    let options = LaneOptions {
        batch: window as u32,
        concurrency: window / TOGETHER,
        history: History::Omit,
        ..LaneOptions::default()
    };
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        let message = Mutex::new(None);
        let ours = async |events| {
            fill(&store, events, 0).await?;
            let goal = Goal::new(events);
            let publisher = rabbitmq.publisher().options(options.clone());
            let turn = relay(&store, Counted(publisher, goal.clone()), &goal).await?;
            *message.lock().await = Some(queue.message().await?);
            assert_eq!(queue.purge().await? as usize, events - 1);
            Ok(turn)
        };
        let bare = async |events| {
            let message = message.lock().await;
            let (body, properties) = message.as_ref().ok_or("nothing was published")?;
            let turn = bare(&queue, events, body, properties).await?;
            queue.purge().await?;
            Ok(turn)
        };
        rounds.push(turns_of(size.pending / RELAYS, RELAYS, ours, bare).await?);
    }
    queue.remove().await?;
    Ok(rounds)
}
