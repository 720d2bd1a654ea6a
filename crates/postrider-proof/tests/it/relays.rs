//! Several relay processes at once.

use crate::database::{Database, over_each_store};
use crate::worker::Worker;

over_each_store! {
    /// B.2
    four_processes_share_the_work_and_no_effect,
}

const EVENTS: i64 = 20_000;

async fn four_processes_share_the_work_and_no_effect(database: &Database) {
    Worker::start(database.url(), &format!("produce {EVENTS} --together 1000")).finishes().await;
    let relays: Vec<_> = (0..4).map(|_| Worker::start(database.url(), "relay --drain --concurrency 8")).collect();
    for relay in relays {
        relay.finishes().await;
    }
    database.every_effect_happened_once(EVENTS).await;
    let workers = database.number("SELECT count(DISTINCT worker) FROM effect_log").await;
    assert_eq!(workers, 4, "each process had a share");
}
