//! Broker faults: resets, restarts, a memory alarm, and a consumer killed before its acknowledgement. No event is lost,
//! and every effect happens once.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use postrider_proof::broker::{PrivateBroker, VirtualHost};
use postrider_proof::proxy::Proxy;

use crate::database::{Database, over_each_store};
use crate::worker::Worker;

over_each_store! {
    /// A.14, E.2
    a_crash_between_commit_and_acknowledgement_doubles_nothing_on_rabbitmq,
}

/// Removes the local subscription, so that events reach the consumer only through the broker.
const THROUGH_THE_BROKER: &str = "DELETE FROM postrider_subscription";
const DONE: &str = "SELECT count(*) FROM counter WHERE n > 0";

/// The number of messages in a queue.
async fn waiting(url: &str, queue: &str) -> u32 {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let asking = QueueDeclareOptions { passive: true, durable: true, ..Default::default() };
    let queue = channel.queue_declare(queue.into(), asking, FieldTable::default()).await.unwrap();
    queue.message_count()
}

/// F45, F46, D.11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_on_postgres_while_the_rabbitmq_fails_in_every_way() {
    const EVENTS: i64 = 10_000;
    let database = Database::postgres().await;
    database.execute(THROUGH_THE_BROKER).await;
    let broker = PrivateBroker::start().await;
    let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, broker.port()))).await.unwrap();
    let url = format!("amqp://guest:guest@{}/%2f", proxy.address());
    let mut receiver = Worker::start(database.url(), &format!("receive --broker {url} --concurrency 8"));
    receiver.wait_for_line("at ready").await;
    let publisher = Worker::start(database.url(), &format!("publish --broker {url}"));

    // Resets, five times a second, until 3,000 of the events are consumed.
    Worker::start(database.url(), "produce 4000 --together 100").finishes().await;
    let mut resets = 0;
    while database.number(DONE).await < 3_000 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.reset();
        resets += 1;
    }
    assert!(resets >= 5, "{resets} resets were no trouble");

    // Two restarts, with events waiting in the store and in the broker.
    for restart in 0..2 {
        let from = 4_000 + restart * 2_000;
        Worker::start(database.url(), &format!("produce 2000 --from {from} --together 100")).finishes().await;
        broker.stop().await;
        let before = database.number(DONE).await;
        assert!(before < i64::from(from + 2_000), "there was work left when it ended");
        broker.resume().await;
        while database.number(DONE).await < before + 100 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    // The broker accepts nothing for a while.
    broker.raise_memory_alarm().await;
    Worker::start(database.url(), "produce 2000 --from 8000 --together 100").finishes().await;
    // Messages already sent may still arrive.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let unsent = "SELECT count(*) FROM postrider_delivery";
    let blocked = database.number(unsent).await;
    assert!(blocked > 0, "a broker without memory has taken everything");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(database.number(unsent).await, blocked, "a broker that is blocked has taken something");
    broker.clear_memory_alarm().await;

    database.until("SELECT count(*) FROM counter WHERE n = 1", EVENTS).await;
    database.until(unsent, 0).await;
    publisher.terminate().await;
    receiver.terminate().await;
    publisher.finishes().await;
    receiver.finishes().await;
    database.every_effect_happened_once(EVENTS).await;
    let direct = format!("amqp://guest:guest@127.0.0.1:{}/%2f", broker.port());
    assert_eq!(waiting(&direct, "postrider.count.dead").await, 0, "no message is dead");
    database.finish().await;
}

async fn a_crash_between_commit_and_acknowledgement_doubles_nothing_on_rabbitmq(database: &Database) {
    const KILLS: u32 = 10;
    database.execute(THROUGH_THE_BROKER).await;
    let host = VirtualHost::fresh().await;
    let queue = "postrider.count";
    let mut declares = Worker::start(database.url(), &format!("--stop-at ready receive --broker {}", host.url()));
    declares.wait_for_line("stopped ready").await;
    declares.kill().await;
    let publisher = Worker::start(database.url(), &format!("publish --broker {}", host.url()));
    Worker::start(database.url(), &format!("produce {KILLS}")).finishes().await;
    database.until("SELECT count(*) FROM postrider_delivery", 0).await;

    for kill in 1..=KILLS {
        let address = host.url().rsplit_once('@').unwrap().1.split('/').next().unwrap().parse().unwrap();
        let proxy = Proxy::to(address).await.unwrap();
        let url = host.url().replace(&address.to_string(), &proxy.address().to_string());
        let mut receiver =
            Worker::start(database.url(), &format!("receive --broker {url} --takes-ms 300 --concurrency 1"));
        // Messages with a committed effect are acknowledged at once; the next one has none yet.
        receiver.wait_for_line("at handler").await;
        // From here on nothing reaches the broker, so no acknowledgement does.
        proxy.stall();
        database.until("SELECT count(*) FROM effect_log", i64::from(kill)).await;
        receiver.kill().await;
        proxy.reset();
        // The broker has noticed the reset and requeued the message.
        while waiting(host.url(), queue).await < KILLS - kill + 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let receiver = Worker::start(database.url(), &format!("receive --broker {}", host.url()));
    while waiting(host.url(), queue).await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    receiver.terminate().await;
    receiver.finishes().await;
    publisher.terminate().await;
    publisher.finishes().await;
    assert_eq!(waiting(host.url(), queue).await, 0, "all of them were acknowledged");
    database.every_effect_happened_once(i64::from(KILLS)).await;
    host.remove().await;
}
