//! The store becomes unreachable and returns.

use std::time::{Duration, Instant};

use crate::database::{Database, over_each_server};
use crate::worker::Worker;

over_each_server! {
    /// F44: connections are accepted and reset at once, as by a load balancer without a backend.
    an_outage_causes_few_connections,
    /// F44: the port is closed, as of a stopped server. A pool of sqlx would retry it in a loop.
    a_closed_port_is_not_hammered,
}

const OUTAGE: Duration = Duration::from_secs(10);
/// One per second, and two for tasks that were about to connect when the outage began.
const CONNECTIONS: usize = 12;

async fn everything_settled(database: &Database, events: i64) {
    database.until("SELECT count(*) FROM counter WHERE n = 1", events).await;
}

async fn an_outage_causes_few_connections(database: &Database) {
    let (proxy, url) = database.proxy().await;
    Worker::start(database.url(), "produce 200 --together 100").finishes().await;
    // Slow enough that work is in flight when the connections fail.
    let mut consumer = Worker::start(&url, "relay --takes-ms 20 --attempts 100");
    for _ in 0..50 {
        consumer.wait_for_line("at settled").await;
    }

    let before = proxy.connections();
    proxy.refuse();
    proxy.reset();
    Worker::start(database.url(), "produce 100 --from 200 --together 100").finishes().await;
    tokio::time::sleep(OUTAGE).await;
    let made = proxy.connections() - before;
    eprintln!("F44: {made} connections in {OUTAGE:?} of resets");
    assert!(made <= CONNECTIONS, "{made} connections in {OUTAGE:?}");
    assert!(made >= 2, "it goes on asking");

    proxy.accept();
    // Deliveries in flight at the reset have failed once and are due again soon.
    everything_settled(database, 300).await;
    consumer.kill().await;
    database.every_effect_happened_once(300).await;
}

async fn a_closed_port_is_not_hammered(database: &Database) {
    let (proxy, url) = database.proxy().await;
    Worker::start(database.url(), "produce 200 --together 100").finishes().await;
    let mut consumer = Worker::start(&url, "relay --takes-ms 20 --attempts 100");
    for _ in 0..50 {
        consumer.wait_for_line("at settled").await;
    }

    // A closed port cannot count attempts. The kernel counts the refused ones, for the whole machine.
    let before = refused_by_the_kernel();
    proxy.close().await;
    proxy.reset();
    tokio::time::sleep(OUTAGE).await;
    let made = refused_by_the_kernel() - before;
    eprintln!("F44: {made:?} connections refused in {OUTAGE:?}");
    // Other processes on this machine may be refused connections too.
    assert!(made <= 2 * CONNECTIONS, "{made:?} connections in {OUTAGE:?}");

    proxy.open().await.unwrap();
    everything_settled(database, 200).await;
    consumer.kill().await;
    database.every_effect_happened_once(200).await;
}

/// The number of refused connections, as Linux counts them.
fn refused_by_the_kernel() -> usize {
    let text = std::fs::read_to_string("/proc/net/snmp").expect("Linux counts them");
    let mut tcp = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let place = tcp.next().unwrap().split(' ').position(|name| name == "AttemptFails").unwrap();
    tcp.next().unwrap().split(' ').nth(place).unwrap().parse().unwrap()
}

/// The client port of the session that listens.
async fn listener(database: &Database) -> u16 {
    let listening = "SELECT coalesce(max(client_port), 0)::bigint FROM pg_stat_activity \
        WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'";
    loop {
        match u16::try_from(database.number(listening).await).unwrap() {
            0 => tokio::time::sleep(Duration::from_millis(5)).await,
            port => return port,
        }
    }
}

/// F36: the listening connection stays open, but no announcement arrives on it. The poll finds the events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_listener_delays_nothing_on_postgres() {
    let database = Database::postgres().await;
    let (proxy, url) = database.proxy().await;
    let mut consumer = Worker::start(&url, "relay --poll-ms 1000");
    assert!(proxy.stall_one(listener(&database).await), "the server's view of the link is the proxy's");
    let mut producer = Worker::start(database.url(), "produce 10 --on-request --announce");
    producer.wait_for_line("at ready").await;
    for event in 0..3 {
        producer.send_line("one more").await;
        producer.wait_for_line("at committed").await;
        let committed = Instant::now();
        consumer.wait_for_line(&format!("at settled e{event:05}")).await;
        let took = committed.elapsed();
        assert!(took < Duration::from_millis(1_500), "the poll finds it: {took:?}");
    }
    consumer.kill().await;
    database.every_effect_happened_once(3).await;
    database.finish().await;
}

/// F36: a new listener replaces the silent one, and announcements arrive on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_listener_on_postgres_is_replaced() {
    let database = Database::postgres().await;
    let (proxy, url) = database.proxy().await;
    let mut consumer = Worker::start(&url, "relay --poll-ms 3600000");
    consumer.wait_for_line("at ready").await;
    let ready = Instant::now();
    let silent = listener(&database).await;
    assert!(proxy.stall_one(silent), "the server's view of the link is the proxy's");
    let stalled = Instant::now();
    let another = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND query LIKE 'LISTEN%' AND state = 'idle' AND client_port <> {silent}"
    );
    database.until(&another, 1).await;
    let took = stalled.elapsed();
    eprintln!("F36: a new listener after {took:?}");
    assert!(took < Duration::from_secs(15), "a new listener took {took:?}");

    let mut producer = Worker::start(database.url(), "produce 10 --on-request --announce");
    producer.wait_for_line("at ready").await;
    // An idle relay looks after 100 ms, and each time after twice as long: the ninth look comes before 13 s, the tenth after 24 s.
    tokio::time::sleep((ready + Duration::from_secs(14)).saturating_duration_since(Instant::now())).await;
    producer.send_line("one more").await;
    let settled = tokio::time::timeout(Duration::from_secs(3), consumer.wait_for_line("at settled e00000")).await;
    settled.expect("the new listener receives the announcement");
    consumer.kill().await;
    database.every_effect_happened_once(1).await;
    database.finish().await;
}
