//! Two relay processes on one PostgreSQL: they share the work, and each event is consumed once.
//!
//! ```console
//! $ cargo run --locked -p postrider --example two_relays -- postgres://postgres@localhost/postgres
//! ```
//!
//! Without an argument the server is the one in `POSTRIDER_TEST_POSTGRES`. The program creates its own database
//! there, and drops it at the end.
#![allow(clippy::print_stdout, reason = "an example prints its steps")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use postrider::prelude::*;
use postrider::store::postgres::PostgresStore;
use postrider::{Consumer, Event, Failure, Inbox, Outbox, Received, Relay, RelayOptions};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

type AnyError = Box<dyn std::error::Error>;

/// Minimum number of orders to pay; more, until both relays have consumed some.
const ORDERS: i64 = 40;
/// The interval between two orders, unless one is consumed earlier.
const PACE: Duration = Duration::from_millis(10);

#[derive(Serialize, Deserialize)]
struct OrderPaid {
    order_id: i64,
}

impl Event for OrderPaid {
    const TOPIC: &'static str = "order.paid";
}

// --- a relay: a separate process

/// Records who consumed which order. The table allows a second row, so only Postrider prevents one.
struct CommitCoupon {
    relay: String,
}

impl Consumer<PostgresStore> for CommitCoupon {
    const NAME: &'static str = "coupon";
    type Event = OrderPaid;

    async fn handle(&self, tx: &mut PgConnection, paid: Received<OrderPaid>) -> Result<(), Failure> {
        let insert = sqlx::query("INSERT INTO coupon (order_id, relay) VALUES ($1, $2)");
        insert.bind(paid.order_id).bind(&self.relay).execute(tx).await?;
        println!("{}", paid.order_id); // the parent reads this
        Ok(())
    }
}

/// Works until the parent closes the pipe or dies.
async fn relay(name: &str, url: &str) -> Result<(), AnyError> {
    let store = PostgresStore::connect(url).await?;
    let inbox = Inbox::new(store.clone()).consumer(CommitCoupon { relay: name.into() });
    let (closed, closing) = oneshot::channel();
    std::thread::spawn(|| closed.send(std::io::read_to_string(std::io::stdin()).is_ok()));
    let closing = async { closing.await.map(drop).unwrap_or_default() };
    // The parent has no relay that would announce its events, so these two poll often.
    let options = RelayOptions { owner: name.into(), poll: Duration::from_millis(100), ..RelayOptions::default() };
    Ok(Relay::new(store, inbox).options(options).run(closing).await?)
}

// --- the shop: pays orders, and starts the relays

/// A line of a relay: the order that it consumes; `None` when it has ended.
type RelayLine = (&'static str, Option<i64>);

/// Starts this program again as a relay, and forwards its output.
fn start(name: &'static str, url: &str, sender: mpsc::UnboundedSender<RelayLine>) -> Result<Child, AnyError> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["relay", name, url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output to read")?).lines();
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let _ = sender.send((name, line.parse().ok()));
        }
        let _ = sender.send((name, None));
    });
    Ok(child)
}

async fn shop(url: &str) -> Result<(), AnyError> {
    let store = PostgresStore::connect(url).await?;
    store.migrate().await?;
    let mut tx = store.begin().await?;
    sqlx::query("CREATE TABLE coupon (order_id bigint NOT NULL, relay text NOT NULL)").execute(&mut *tx).await?;
    tx.commit().await?;

    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut relays = vec![start("one", url, sender.clone())?, start("two", url, sender)?];
    println!("two relays have started");

    let outbox = Outbox::new(store.clone()).service("shop");
    let (mut orders, mut consumed, mut shares) = (0, BTreeSet::new(), BTreeSet::new());
    while orders < ORDERS || shares.len() < 2 || consumed.len() < orders as usize {
        if orders < ORDERS || shares.len() < 2 {
            orders += 1;
            let mut tx = store.begin().await?;
            outbox.enqueue(&mut tx, &OrderPaid { order_id: orders }).await?;
            tx.commit().await?;
        }
        if let Ok(Some((relay, order))) = timeout(PACE, receiver.recv()).await {
            consumed.insert(order.ok_or_else(|| format!("relay {relay} has ended early"))?);
            shares.insert(relay);
        }
    }
    println!("{orders} orders were paid");
    for relay in &mut relays {
        drop(relay.stdin.take()); // it finishes what it has begun
        let ended = relay.wait().await?;
        if !ended.success() {
            return Err(format!("a relay ended with {ended}").into());
        }
    }

    let mut rows = store.begin().await?;
    let tally = sqlx::query_as("SELECT relay, count(*) FROM coupon GROUP BY relay");
    let tally: BTreeMap<String, i64> = tally.fetch_all(&mut *rows).await?.into_iter().collect();
    for (relay, coupons) in &tally {
        println!("relay {relay} committed {coupons} coupons");
    }
    let distinct = sqlx::query_scalar("SELECT count(DISTINCT order_id) FROM coupon");
    let distinct: i64 = distinct.fetch_one(&mut *rows).await?;
    if tally.values().sum::<i64>() != orders || distinct != orders {
        return Err(format!("{orders} orders, {distinct} of them with a coupon, by {tally:?}").into());
    }
    println!("each order has one coupon");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let [word, name, url] = &args[..]
        && word == "relay"
    {
        return relay(name, url).await;
    }
    let server = match args.into_iter().next() {
        Some(url) => url,
        None => std::env::var("POSTRIDER_TEST_POSTGRES")
            .map_err(|_| "name a server: two_relays postgres://user@host/database")?,
    };
    let server = PgConnectOptions::from_str(&server)?;
    let name = format!("two_relays_{}", uuid::Uuid::new_v4().simple());
    let mut conn = server.connect().await?;
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut conn).await?;
    let told = shop(server.clone().database(&name).to_url_lossy().as_str()).await;
    sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).execute(&mut conn).await?;
    told
}
