//! `worker publish` and `worker receive`: both sides of a broker. Each runs until SIGTERM.

use std::error::Error;
use std::time::Duration;

use clap::Args;
use postrider::{Inbox, LaneOptions, RabbitMq, Relay};
use postrider_proof::effect::Effect;
use tokio::signal::unix::{SignalKind, signal};

use crate::consume::Count;
use crate::points::{Point, Stops};

#[derive(Args)]
pub(crate) struct Broker {
    /// amqp://user:password@host:port/vhost
    #[arg(long)]
    broker: String,
}

#[derive(Args)]
pub(crate) struct Receive {
    #[command(flatten)]
    broker: Broker,
    /// Duration of the effect.
    #[arg(long, default_value_t = 0)]
    takes_ms: u64,
    /// Number of concurrent handlers.
    #[arg(long, default_value_t = 4)]
    concurrency: usize,
}

pub(crate) async fn publish<S: Effect>(store: S, broker: Broker) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let publisher = RabbitMq::new(&broker.broker)?.publisher().every_topic();
    Relay::new(store, publisher).run(async { terminate.recv().await.unwrap_or_default() }).await?;
    Ok(())
}

pub(crate) async fn receive<S: Effect>(store: S, stops: Stops, receive: Receive) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let count = Count { stops: stops.clone(), takes: Duration::from_millis(receive.takes_ms) };
    let options = LaneOptions { concurrency: receive.concurrency, ..LaneOptions::default() };
    let inbox = Inbox::new(store).consumer_with(count, options);
    let receiver = RabbitMq::new(&receive.broker.broker)?.receiver(inbox);
    receiver.declare().await?;
    stops.at(Point::Ready, "").await;
    receiver.run(async { terminate.recv().await.unwrap_or_default() }).await?;
    Ok(())
}
