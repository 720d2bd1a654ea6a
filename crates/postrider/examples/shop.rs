//! A complete shop on SQLite: an order is paid, its coupon is committed exactly once, and a mail is sent.
//!
//! ```console
//! $ cargo run --locked -p postrider --example shop
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its steps")]

use std::path::Path;
use std::sync::Arc;

use postrider::prelude::*;
use postrider::store::sqlite::SqliteStore;
use postrider::{Aggregate, Consumer, Enqueued, Event, Failure, Inbox, Outbox, OutsideConsumer, Received, Relay};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;
use tokio::sync::Notify;

type AnyError = Box<dyn std::error::Error>;

// --- two events of the shop

#[derive(Serialize, Deserialize)]
struct OrderPaid {
    order_id: i64,
    amount_cents: i64,
}

impl Event for OrderPaid {
    const TOPIC: &'static str = "order.paid";

    fn aggregate(&self) -> Option<Aggregate> {
        Some(Aggregate::new("ORDER", self.order_id))
    }

    /// Events of one order stay in order.
    fn key(&self) -> Option<String> {
        Some(self.order_id.to_string())
    }

    /// An order is paid once: a repeated payment callback writes no second event.
    fn event_id(&self) -> Option<String> {
        Some(format!("order:{}:paid", self.order_id))
    }
}

#[derive(Serialize, Deserialize)]
struct CouponCommitted {
    order_id: i64,
    code: String,
}

impl Event for CouponCommitted {
    const TOPIC: &'static str = "coupon.committed";
}

// --- the producer

/// The payment's callback: the order's new status and the event that announces it are one transaction.
async fn pay(store: &SqliteStore, outbox: &Outbox<SqliteStore>, order_id: i64) -> Result<(), AnyError> {
    let mut tx = store.begin().await?;
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE id = ?1").bind(order_id).execute(&mut *tx).await?;
    let enqueued = outbox.enqueue(&mut tx, &OrderPaid { order_id, amount_cents: 9_900 }).await?;
    tx.commit().await?;
    match enqueued {
        Enqueued::Duplicate(id) => println!("shop:   the callback came again: {id} was written before"),
        new => println!("shop:   order {order_id} is PAID, and {} with it", new.event_id()),
    }
    Ok(())
}

// --- the consumers

/// Its effect is in the shop's own database: exactly once.
struct CommitCoupon {
    outbox: Outbox<SqliteStore>,
}

impl Consumer<SqliteStore> for CommitCoupon {
    const NAME: &'static str = "coupon";
    type Event = OrderPaid;

    async fn handle(&self, tx: &mut SqliteConnection, paid: Received<OrderPaid>) -> Result<(), Failure> {
        // The inbox row, this effect, and the event enqueued here commit together, or not at all.
        let commit = sqlx::query_scalar("UPDATE coupon SET used = used + 1 WHERE order_id = ?1 RETURNING code");
        let code: String = commit.bind(paid.order_id).fetch_one(&mut *tx).await?;
        println!("coupon: {code} is committed for order {}, {} cents", paid.order_id, paid.amount_cents);
        self.outbox.enqueue(tx, &CouponCommitted { order_id: paid.order_id, code }).await?;
        Ok(())
    }
}

/// Its effect is elsewhere, and no transaction is open meanwhile: at least once, so it sends a key along.
struct SendMail {
    sent: Arc<Notify>,
}

impl OutsideConsumer for SendMail {
    const NAME: &'static str = "mail";
    type Event = CouponCommitted;

    async fn handle(&self, committed: Received<CouponCommitted>) -> Result<(), Failure> {
        // A mail server, or an HTTP service, that gets the same key again does nothing.
        println!("mail:   \"Order {}: your coupon {} was used.\"", committed.order_id, committed.code);
        println!("        Idempotency-Key: {}", committed.idempotency_key());
        let parent = committed.envelope().parent_event_id.as_ref().ok_or("it has no parent")?;
        println!("        because of {parent}");
        self.sent.notify_one();
        Ok(())
    }
}

// --- the program

async fn run(folder: &Path) -> Result<(), AnyError> {
    let store = SqliteStore::connect(&format!("sqlite://{}", folder.join("shop.db").display())).await?;
    store.migrate().await?;
    let mut tx = store.begin().await?;
    for sql in [
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL)",
        "CREATE TABLE coupon (code TEXT PRIMARY KEY, order_id INTEGER NOT NULL, used INTEGER NOT NULL DEFAULT 0)",
        "INSERT INTO orders (id, status) VALUES (7, 'WAIT_PAY')",
        "INSERT INTO coupon (code, order_id) VALUES ('SPRING', 7)",
    ] {
        sqlx::query(sql).execute(&mut *tx).await?;
    }
    tx.commit().await?;

    let outbox = Outbox::new(store.clone()).service("shop");
    pay(&store, &outbox, 7).await?;
    pay(&store, &outbox, 7).await?;

    // A service runs its relay beside everything else, until it is stopped. This one stops after the first mail.
    let sent = Arc::new(Notify::new());
    let inbox = || {
        let coupon = CommitCoupon { outbox: outbox.clone() };
        Inbox::new(store.clone()).consumer(coupon).outside(SendMail { sent: Arc::clone(&sent) })
    };
    Relay::new(store.clone(), inbox()).run(sent.notified()).await?;

    // As if the worker had died after its effect: the event is delivered again, and has no second effect.
    store.redrive("order:7:paid", "coupon", None).await?;
    Relay::new(store.clone(), inbox()).drain().await?;
    let used: i64 = sqlx::query_scalar("SELECT used FROM coupon").fetch_one(store.pool()).await?;
    println!("shop:   order.paid was delivered twice, and {used} coupon is used");
    match used {
        1 => Ok(()),
        _ => Err("an effect happens once".into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let folder = std::env::temp_dir().join(format!("postrider-shop-{}", std::process::id()));
    let told = run(&folder).await;
    std::fs::remove_dir_all(&folder)?;
    told
}
