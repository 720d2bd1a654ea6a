//! Several relay processes at once.

use crate::database::{Database, PAST_ANY_LEASE, over_each_server, over_each_store, soak};
use crate::worker::Worker;

over_each_store! {
    /// B.2
    four_processes_share_the_work_and_no_effect,
}

async fn four_processes_share_the_work_and_no_effect(database: &Database) {
    let events = if soak() { 20_000 } else { 5_000 };
    Worker::start(database.url(), &format!("produce {events} --together 1000")).finishes().await;
    let relays: Vec<_> = (0..4).map(|_| Worker::start(database.url(), "relay --drain --concurrency 8")).collect();
    for relay in relays {
        relay.finishes().await;
    }
    database.every_effect_happened_once(events).await;
    let workers = database.number("SELECT count(DISTINCT worker) FROM effect_log").await;
    assert_eq!(workers, 4, "each process had a share");
}

/// Tests of processes whose clocks differ from the server's. A SQLite database has no other clock than its processes.
mod skewed {
    use super::*;

    over_each_server! {
        /// F14, B.6
        wrong_clocks_run_nothing_early_and_lease_nothing_twice,
    }

    /// Both relays would do wrong if they went by their own clocks: to the one that is ahead, delayed events would be due and all
    /// leases over; a lease of the one that is behind would be over when it begins.
    async fn wrong_clocks_run_nothing_early_and_lease_nothing_twice(database: &Database) {
        let (ahead, behind) = ("--skew-ms 600000", "--skew-ms -600000");
        let worker = |arguments: String| Worker::start(database.url(), &arguments);
        worker(format!("{ahead} produce 10")).finishes().await;
        worker(format!("{behind} produce 5 --from 10 --delay-ms 300000")).finishes().await;
        let mut slow = worker(format!("{behind} --stop-at effect relay --concurrency 1"));
        slow.wait_for_line("stopped effect").await;
        worker(format!("{ahead} relay --drain")).finishes().await;
        let held = database.number("SELECT count(*) FROM postrider_delivery WHERE token IS NOT NULL").await;
        let done = database.number("SELECT count(*) FROM effect_log").await;
        assert!(held > 0, "the slow worker still holds its lease");
        assert_eq!(held + done, 10, "what it holds is not leased a second time");
        let untouched = "SELECT count(*) FROM postrider_delivery WHERE token IS NULL AND attempts = 0";
        assert_eq!(database.number(untouched).await, 5, "delayed events do not run early");
        slow.kill().await;
        database.age(PAST_ANY_LEASE).await;
        worker(format!("{behind} relay --drain")).finishes().await;
        assert_eq!(database.number("SELECT count(*) FROM effect_log").await, 10, "each effect once");
        assert_eq!(database.number(untouched).await, 5);
    }
}
