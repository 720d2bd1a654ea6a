//! What one process writes, another hears of at once.

use std::time::Duration;

use tokio::time::timeout;

use crate::database::Database;
use crate::worker::Worker;

/// A.4: nobody polls for an hour, and the process that writes has no consumer for what it writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_another_process_arrives_by_notify_on_postgres() {
    let database = Database::postgres().await;
    let mut consumer = Worker::start(database.url(), "relay --poll-ms 3600000");
    consumer.says("at ready").await;
    let mut producer = Worker::start(database.url(), "produce 10 --on-request --announce");
    producer.says("at ready").await;
    let listening = "SELECT count(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'";
    database.until(listening, 2).await;

    for event in ["e00000", "e00001", "e00002"] {
        // A relay looks less and less often. Two quiet seconds mean that the next look is more than a second away.
        let quiet = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
            AND query LIKE '%postrider_delivery%' AND query NOT LIKE '%pg_stat_activity%' AND query_start > now() - interval '2 s'";
        database.until(quiet, 0).await;
        producer.tell("one more").await;
        producer.says("at committed").await;
        let heard = timeout(Duration::from_secs(1), consumer.says(&format!("at settled {event}"))).await;
        heard.unwrap_or_else(|_| panic!("{event} was not announced"));
    }
    consumer.kill().await;
    producer.kill().await;
    database.every_effect_happened_once(3).await;
    database.finish().await;
}
