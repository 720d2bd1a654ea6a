//! The store goes away and comes back.

use std::time::{Duration, Instant};

use crate::database::{Database, over_each_server};
use crate::worker::Worker;

over_each_server! {
    /// F44: connections that are made and reset at once, as by a load balancer with nobody behind it.
    an_outage_is_no_storm_of_connections,
    /// F44: a port that nobody listens on, as of a server that is down. Pools of sqlx ask such a one again and again.
    a_closed_port_is_not_hammered,
}

const OUTAGE: Duration = Duration::from_secs(10);
/// One a second, and one or two for those who were about to connect when it began.
const CONNECTIONS: usize = 12;

async fn everything_settled(database: &Database, events: i64) {
    database.until("SELECT count(*) FROM counter WHERE n = 1", events).await;
}

async fn an_outage_is_no_storm_of_connections(database: &Database) {
    let (proxy, url) = database.proxy().await;
    Worker::start(database.url(), "produce 200 --together 100").finishes().await;
    // Slow enough to be in the middle of it when the link dies.
    let mut consumer = Worker::start(&url, "relay --takes-ms 20 --attempts 100");
    for _ in 0..50 {
        consumer.says("at settled").await;
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
    // What was in flight when the link died has failed once, and is due again soon.
    everything_settled(database, 300).await;
    consumer.kill().await;
    database.every_effect_happened_once(300).await;
}

async fn a_closed_port_is_not_hammered(database: &Database) {
    let (proxy, url) = database.proxy().await;
    Worker::start(database.url(), "produce 200 --together 100").finishes().await;
    let mut consumer = Worker::start(&url, "relay --takes-ms 20 --attempts 100");
    for _ in 0..50 {
        consumer.says("at settled").await;
    }

    // A closed port counts nobody; the kernel counts whom it turned away, for the whole machine.
    let before = refused_by_the_kernel();
    proxy.close().await;
    proxy.reset();
    tokio::time::sleep(OUTAGE).await;
    let made = refused_by_the_kernel().zip(before).map(|(after, before)| after - before);
    eprintln!("F44: {made:?} connections refused in {OUTAGE:?}");
    // Others on this machine may have been refused something too.
    assert!(made.is_none_or(|made| made <= 2 * CONNECTIONS), "{made:?} connections in {OUTAGE:?}");

    proxy.open().await.unwrap();
    everything_settled(database, 200).await;
    consumer.kill().await;
    database.every_effect_happened_once(200).await;
}

/// Connections that were refused, as Linux counts them.
fn refused_by_the_kernel() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/net/snmp").ok()?;
    let mut tcp = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let place = tcp.next()?.split(' ').position(|name| name == "AttemptFails")?;
    tcp.next()?.split(' ').nth(place)?.parse().ok()
}

/// F36: the listening connection is there, and nothing comes through it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_listener_delays_nothing_on_postgres_and_is_replaced() {
    let database = Database::postgres().await;
    let (proxy, url) = database.proxy().await;
    let mut consumer = Worker::start(&url, "relay --poll-ms 1000");
    let listening = "SELECT coalesce(max(client_port), 0)::bigint FROM pg_stat_activity \
        WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'";
    let listener = loop {
        match u16::try_from(database.number(listening).await).unwrap() {
            0 => tokio::time::sleep(Duration::from_millis(5)).await,
            port => break port,
        }
    };
    assert!(proxy.stall_one(listener), "the server's view of the link is the proxy's");
    let stalled = Instant::now();

    for event in 0..3 {
        Worker::start(database.url(), &format!("produce 1 --from {event}")).finishes().await;
        let committed = Instant::now();
        consumer.says(&format!("at settled e{event:05}")).await;
        let took = committed.elapsed();
        assert!(took < Duration::from_millis(1_500), "the poll finds it: {took:?}");
    }

    let another = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND query LIKE 'LISTEN%' AND state = 'idle' AND client_port <> {listener}"
    );
    database.until(&another, 1).await;
    let took = stalled.elapsed();
    eprintln!("F36: a new listener after {took:?}");
    assert!(took < Duration::from_secs(15), "a new listener took {took:?}");
    // And it hears: this one is announced by hand, long before the next poll.
    consumer.kill().await;
    database.every_effect_happened_once(3).await;
    database.finish().await;
}
