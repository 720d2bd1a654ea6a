//! SIGTERM or Ctrl-C while mails are being sent: those that were begun are finished, the rest is released without an
//! attempt.
//!
//! ```console
//! $ cargo run --locked -p postrider --example graceful_shutdown              # and press Ctrl-C
//! $ cargo run --locked -p postrider --example graceful_shutdown -- --demo    # it sends itself the signal
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its steps")]

use std::path::Path;
use std::time::Duration;

use postrider::prelude::*;
use postrider::store::sqlite::SqliteStore;
use postrider::{Event, Failure, Inbox, Outbox, OutsideConsumer, Received, Relay, RelayOptions};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::watch;

type AnyError = Box<dyn std::error::Error>;

const MAILS: i64 = 40;
/// As slow as some mail servers.
const SLOW: Duration = Duration::from_secs(1);

#[derive(Serialize, Deserialize)]
struct OrderPaid {
    order_id: i64,
}

impl Event for OrderPaid {
    const TOPIC: &'static str = "order.paid";
}

struct SendMail {
    begun: watch::Sender<i64>,
    finished: watch::Sender<i64>,
}

impl OutsideConsumer for SendMail {
    const NAME: &'static str = "mail";
    type Event = OrderPaid;

    async fn handle(&self, paid: Received<OrderPaid>) -> Result<(), Failure> {
        println!("mail for order {} …", paid.order_id);
        self.begun.send_modify(|mails| *mails += 1);
        tokio::time::sleep(SLOW).await;
        println!("mail for order {} is sent", paid.order_id);
        self.finished.send_modify(|mails| *mails += 1);
        Ok(())
    }
}

/// The signals that end a service: SIGTERM from the system, or Ctrl-C from a person. Listening begins with the call,
/// not with the first await: a signal in between would end the process at once.
#[cfg(unix)]
fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => println!("SIGTERM: finishing what was begun"),
            _ = interrupt.recv() => println!("Ctrl-C: finishing what was begun"),
        }
    })
}

/// The signal that ends a service: Ctrl-C.
#[cfg(not(unix))]
fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
}

async fn run(folder: &Path, demo: bool) -> Result<(), AnyError> {
    let store = SqliteStore::connect(&format!("sqlite://{}", folder.join("shop.db").display())).await?;
    store.migrate().await?;
    let outbox = Outbox::new(store.clone()).service("shop");
    let mut tx = store.begin().await?;
    outbox.enqueue_many(&mut tx, &(1..=MAILS).map(|order_id| OrderPaid { order_id }).collect::<Vec<_>>()).await?;
    tx.commit().await?;
    println!("{MAILS} mails are to be sent; Ctrl-C stops");

    let shutdown = shutdown_signal()?;
    let (begun, finished) = (watch::Sender::new(0), watch::Sender::new(0));
    if demo {
        let mut begun = begun.subscribe();
        tokio::spawn(async move {
            let in_flight = begun.wait_for(|mails| *mails >= 4).await.is_ok();
            let pid = std::process::id().to_string();
            // A program that forbids `unsafe` cannot raise a signal itself.
            in_flight.then(|| Command::new("kill").args(["-TERM", &pid]).spawn())
        });
    }
    let mail = SendMail { begun: begun.clone(), finished: finished.clone() };
    let inbox = Inbox::new(store.clone()).outside(mail);
    // Longer than a mail takes, shorter than the wait after SIGTERM: Kubernetes waits 30 s.
    let options = RelayOptions { grace: Duration::from_secs(25), ..RelayOptions::default() };
    Relay::new(store.clone(), inbox).options(options).run(shutdown).await?;

    let (begun, finished) = (*begun.borrow(), *finished.borrow());
    let left = store.counts().await?.remove("mail").unwrap_or_default();
    println!("{begun} mails were begun, {finished} are sent");
    println!("{} wait for the next start, {} of them tried", left.new + left.failed, left.failed);
    if begun == finished && finished + left.new as i64 == MAILS {
        Ok(())
    } else {
        Err(format!("{begun} begun, {finished} sent, and left: {left:?}").into())
    }
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let demo = std::env::args().any(|arg| arg == "--demo");
    let folder = std::env::temp_dir().join(format!("postrider-shutdown-{}", std::process::id()));
    let told = run(&folder, demo).await;
    std::fs::remove_dir_all(&folder)?;
    told
}
