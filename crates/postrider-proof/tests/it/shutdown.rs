//! SIGTERM while work is in flight.

use std::time::{Duration, Instant};

use crate::database::{Database, over_each_store};
use crate::worker::Worker;

over_each_store! {
    /// F12
    a_terminated_worker_finishes_what_it_began,
}

const EVENTS: i64 = 100;
/// The default grace period of the library.
const GRACE: Duration = Duration::from_secs(25);

async fn a_terminated_worker_finishes_what_it_began(database: &Database) {
    Worker::start(database.url(), "produce 100 --together 100").finishes().await;
    let mut worker = Worker::start(database.url(), "relay --takes-ms 100 --concurrency 8");
    for _ in 0..12 {
        worker.wait_for_line("at handler ").await;
    }
    worker.terminate().await;
    let terminated = Instant::now();
    let (status, lines) = worker.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(terminated.elapsed() < GRACE, "it took {:?}", terminated.elapsed());
    assert!(lines.iter().any(|line| line.starts_with("at settled ")), "work was in flight");

    let done = database.number("SELECT count(*) FROM counter WHERE n = 1").await;
    assert!((12..EVENTS).contains(&done), "{done}");
    assert_eq!(database.number("SELECT count(*) FROM effect_log").await, done, "0 double");
    // No lease has to expire, and no attempt was counted.
    let as_it_was = "SELECT count(*) FROM postrider_delivery WHERE token IS NULL AND attempts = 0";
    assert_eq!(database.number(as_it_was).await, EVENTS - done);
    Worker::start(database.url(), "relay --drain").finishes().await;
    database.every_effect_happened_once(EVENTS).await;
}
