//! Workers that are killed with SIGKILL, each in a window that it names itself, and what the next one makes of it.

use crate::database::{Database, PAST_ANY_LEASE, Stands, over_each_store};
use crate::worker::Worker;

over_each_store! {
    /// A.14
    a_crash_in_any_window_loses_nothing_and_doubles_nothing,
    /// F03, F09
    what_kills_its_workers_ends_dead_and_others_flow,
}

const EVENTS: u32 = 5_000;
/// Kills in each window.
const KILLS: u32 = 12;
/// Events in one transaction of the producer.
const TOGETHER: u32 = 10;

async fn a_crash_in_any_window_loses_nothing_and_doubles_nothing(database: &Database) {
    let mut next = 0;
    for kill in 0..KILLS {
        next = kill_before_the_commit(database, next, kill % 5).await;
        next = kill_after_the_commit(database, next, kill % 7).await;
    }
    let rest = format!("produce {} --from {next} --together 500", EVENTS - next);
    Worker::start(database.url(), &rest).finishes().await;
    let new = "SELECT count(*) FROM postrider_outbox WHERE status = 'NEW'";
    assert_eq!(database.number(new).await, i64::from(EVENTS), "whatever was committed waits, nothing else does");

    for kill in 0..KILLS {
        let before = Stands { events: 1, status: "PROCESSING", received: 0, effects: 0 };
        kill_in(database, "handler", kill * 7, &before).await;
        kill_in(database, "effect", kill * 11 % 50, &before).await;
        let after = Stands { events: 1, status: "SENT", received: 1, effects: 1 };
        kill_in(database, "settled", kill * 5, &after).await;
    }
    Worker::start(database.url(), "relay --drain --attempts 1000").finishes().await;
    database.every_effect_happened_once(i64::from(EVENTS)).await;
}

/// Kills a producer that has written and not committed. Returns the number of the next event.
async fn kill_before_the_commit(database: &Database, from: u32, passing: u32) -> u32 {
    let arguments = format!("--stop-at enqueued --passing {passing} produce 100 --from {from} --together {TOGETHER}");
    let mut producer = Worker::start(database.url(), &arguments);
    let last = producer.says("stopped enqueued ").await;
    producer.kill().await;
    let nothing = Stands { events: 0, status: "none", received: 0, effects: 0 };
    assert_eq!(database.stands(&last).await, nothing, "{last} was not committed: neither change nor event is there");
    let next = from + passing * TOGETHER;
    assert_eq!(database.number("SELECT count(*) FROM postrider_event").await, i64::from(next));
    assert_eq!(database.number("SELECT count(*) FROM counter").await, i64::from(next));
    next
}

/// Kills a producer that has committed and done no more.
async fn kill_after_the_commit(database: &Database, from: u32, passing: u32) -> u32 {
    let arguments = format!("--stop-at committed --passing {passing} produce 100 --from {from} --together {TOGETHER}");
    let mut producer = Worker::start(database.url(), &arguments);
    let last = producer.says("stopped committed ").await;
    producer.kill().await;
    let waits = Stands { events: 1, status: "NEW", received: 0, effects: 0 };
    assert_eq!(database.stands(&last).await, waits, "{last} was committed");
    let next = from + (passing + 1) * TOGETHER;
    assert_eq!(database.number("SELECT count(*) FROM postrider_event").await, i64::from(next));
    next
}

/// Kills a consumer at a point, and looks whether that is where it was. Its leases run out before the next one comes.
async fn kill_in(database: &Database, point: &str, passing: u32, expected: &Stands) {
    let mut consumer =
        Worker::start(database.url(), &format!("--stop-at {point} --passing {passing} relay --attempts 1000"));
    let event = consumer.says(&format!("stopped {point} ")).await;
    consumer.kill().await;
    assert_eq!(database.stands(&event).await, *expected, "{event} was killed at {point}");
    database.age(PAST_ANY_LEASE).await;
}

async fn what_kills_its_workers_ends_dead_and_others_flow(database: &Database) {
    Worker::start(database.url(), "produce 60 --together 60").finishes().await;
    for attempt in 1..=3 {
        let mut consumer = Worker::start(database.url(), "--stop-at handler --stop-with e00020 relay --attempts 3");
        consumer.says("stopped handler e00020").await;
        consumer.kill().await;
        let attempts = "SELECT CAST(max(attempts) AS bigint) FROM postrider_delivery";
        assert_eq!(database.number(attempts).await, attempt);
        database.age(PAST_ANY_LEASE).await;
    }
    let said = Worker::start(database.url(), "--stop-at handler --stop-with e00020 relay --drain --attempts 3");
    let said = said.finishes().await;
    assert!(!said.iter().any(|line| line == "at handler e00020"), "it was not tried a fourth time");
    let dead = Stands { events: 1, status: "DEAD", received: 0, effects: 0 };
    assert_eq!(database.stands("e00020").await, dead);
    assert_eq!(database.number("SELECT count(*) FROM postrider_delivery").await, 1, "nothing else is left");
    assert_eq!(database.number("SELECT count(*) FROM counter WHERE n > 1").await, 0, "nothing has happened twice");
    assert_eq!(database.number("SELECT count(*) FROM counter WHERE n = 1").await, 59, "the others had their effect");
}
