//! Workers killed with SIGKILL at a chosen point, and the recovery by the next worker.

use crate::database::{Database, EventState, PAST_ANY_LEASE, over_each_store};
use crate::worker::Worker;

over_each_store! {
    /// A.14
    a_crash_in_any_window_loses_nothing_and_doubles_nothing,
    /// F03, F09
    an_event_that_kills_its_workers_ends_dead_and_others_are_delivered,
}

const EVENTS: u32 = 5_000;
/// Kills in each window.
const KILLS: u32 = 12;
/// Events per producer transaction.
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
        let before = EventState { events: 1, status: "PROCESSING", received: 0, effects: 0 };
        kill_in(database, "handler", kill * 7, &before).await;
        kill_in(database, "effect", kill * 11 % 50, &before).await;
        let after = EventState { events: 1, status: "SENT", received: 1, effects: 1 };
        kill_in(database, "settled", kill * 5, &after).await;
    }
    Worker::start(database.url(), "relay --drain --attempts 1000").finishes().await;
    database.every_effect_happened_once(i64::from(EVENTS)).await;
}

/// Kills a producer after its writes and before its commit. Returns the number of the next event.
async fn kill_before_the_commit(database: &Database, from: u32, passing: u32) -> u32 {
    let arguments = format!("--stop-at enqueued --passing {passing} produce 100 --from {from} --together {TOGETHER}");
    let mut producer = Worker::start(database.url(), &arguments);
    let last = producer.wait_for_line("stopped enqueued ").await;
    producer.kill().await;
    let nothing = EventState { events: 0, status: "none", received: 0, effects: 0 };
    assert_eq!(
        database.event_state(&last).await,
        nothing,
        "{last} was not committed: neither change nor event is there"
    );
    let next = from + passing * TOGETHER;
    assert_eq!(database.number("SELECT count(*) FROM postrider_event").await, i64::from(next));
    assert_eq!(database.number("SELECT count(*) FROM counter").await, i64::from(next));
    next
}

/// Kills a producer right after its commit.
async fn kill_after_the_commit(database: &Database, from: u32, passing: u32) -> u32 {
    let arguments = format!("--stop-at committed --passing {passing} produce 100 --from {from} --together {TOGETHER}");
    let mut producer = Worker::start(database.url(), &arguments);
    let last = producer.wait_for_line("stopped committed ").await;
    producer.kill().await;
    let waits = EventState { events: 1, status: "NEW", received: 0, effects: 0 };
    assert_eq!(database.event_state(&last).await, waits, "{last} was committed");
    let next = from + (passing + 1) * TOGETHER;
    assert_eq!(database.number("SELECT count(*) FROM postrider_event").await, i64::from(next));
    next
}

/// Kills a consumer at a point and checks the state it left. Ages the
/// database, so that the leases are expired for the next one.
async fn kill_in(database: &Database, point: &str, passing: u32, expected: &EventState) {
    let mut consumer =
        Worker::start(database.url(), &format!("--stop-at {point} --passing {passing} relay --attempts 1000"));
    let event = consumer.wait_for_line(&format!("stopped {point} ")).await;
    consumer.kill().await;
    assert_eq!(database.event_state(&event).await, *expected, "{event} was killed at {point}");
    database.age(PAST_ANY_LEASE).await;
}

async fn an_event_that_kills_its_workers_ends_dead_and_others_are_delivered(database: &Database) {
    Worker::start(database.url(), "produce 60 --together 60").finishes().await;
    for attempt in 1..=3 {
        let mut consumer = Worker::start(database.url(), "--stop-at handler --stop-with e00020 relay --attempts 3");
        consumer.wait_for_line("stopped handler e00020").await;
        consumer.kill().await;
        let attempts = "SELECT CAST(max(attempts) AS bigint) FROM postrider_delivery";
        assert_eq!(database.number(attempts).await, attempt);
        database.age(PAST_ANY_LEASE).await;
    }
    let lines = Worker::start(database.url(), "--stop-at handler --stop-with e00020 relay --drain --attempts 3");
    let lines = lines.finishes().await;
    assert!(!lines.iter().any(|line| line == "at handler e00020"), "it was not tried a fourth time");
    let dead = EventState { events: 1, status: "DEAD", received: 0, effects: 0 };
    assert_eq!(database.event_state("e00020").await, dead);
    assert_eq!(database.number("SELECT count(*) FROM postrider_delivery").await, 1, "nothing else is left");
    assert_eq!(database.number("SELECT count(*) FROM counter WHERE n > 1").await, 0, "nothing has happened twice");
    assert_eq!(database.number("SELECT count(*) FROM counter WHERE n = 1").await, 59, "the others had their effect");
}
