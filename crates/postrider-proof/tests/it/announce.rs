//! An event written by one process wakes the relay of another.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::database::Database;
use crate::worker::Worker;

/// A.4: polling is off, and the writing process has no consumer for its events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_another_process_arrives_by_notify_on_postgres() {
    let database = Database::postgres().await;
    let mut consumer = Worker::start(database.url(), "relay --poll-ms 3600000");
    consumer.wait_for_line("at ready").await;
    let ready = Instant::now();
    let mut producer = Worker::start(database.url(), "produce 10 --on-request --announce");
    producer.wait_for_line("at ready").await;
    let listening = "SELECT count(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'";
    database.until(listening, 2).await;

    // An idle relay looks after 100 ms, and each time after twice as long: the eighth look comes before 7 s, the ninth after 11 s.
    tokio::time::sleep((ready + Duration::from_secs(7)).saturating_duration_since(Instant::now())).await;
    for event in ["e00000", "e00001", "e00002"] {
        producer.send_line("one more").await;
        producer.wait_for_line("at committed").await;
        let settled = timeout(Duration::from_secs(1), consumer.wait_for_line(&format!("at settled {event}"))).await;
        settled.unwrap_or_else(|_| panic!("{event} was not announced"));
    }
    consumer.kill().await;
    producer.kill().await;
    database.every_effect_happened_once(3).await;
    database.finish().await;
}
