//! `worker relay`: consumes in a transaction per event, until SIGTERM, or with `--drain` until nothing is due.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use postrider::transport::{Lane, Outcome, Parcel};
use postrider::{
    Consumer, Event, Failure, Inbox, LaneOptions, Received, Relay, RelayOptions, RetryPolicy, Store, Transport,
};
use postrider_proof::effect::Effect;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::points::{Point, Stops};

#[derive(Args)]
pub(crate) struct Consume {
    /// Ends when nothing is due.
    #[arg(long)]
    drain: bool,
    /// Poll interval when no notification arrives.
    #[arg(long, default_value_t = 1_000)]
    poll_ms: u64,
    /// Duration of the effect.
    #[arg(long, default_value_t = 0)]
    takes_ms: u64,
    /// Number of concurrent handlers.
    #[arg(long, default_value_t = 4)]
    concurrency: usize,
    /// Attempts before an event becomes dead.
    #[arg(long, default_value_t = 10)]
    attempts: u32,
    /// Runs the newer version of the program: other names for the consumer and for the field of its payload.
    #[arg(long)]
    newer: bool,
}

/// The payload of the worker's events.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) counter: String,
}

impl Done {
    pub(crate) fn number(n: u32) -> Self {
        Self { counter: format!("e{n:05}") }
    }
}

/// The payload of the newer version: `counter` is called `name`.
#[derive(Serialize, Deserialize)]
pub(crate) struct Renamed {
    pub(crate) name: String,
}

impl Event for Renamed {
    const TOPIC: &'static str = Done::TOPIC;
    const VERSION: u32 = 2;

    fn event_id(&self) -> Option<String> {
        Some(self.name.clone())
    }

    fn upcast(_: u32, payload: serde_json::Value) -> serde_json::Result<Self> {
        let Done { counter } = serde_json::from_value(payload)?;
        Ok(Self { name: counter })
    }
}

impl Event for Done {
    const TOPIC: &'static str = "work.done";

    fn event_id(&self) -> Option<String> {
        Some(self.counter.clone())
    }
}

/// Increments the event's counter and prints each point it passes.
pub(crate) struct Count {
    pub(crate) stops: Stops,
    pub(crate) takes: Duration,
}

impl<S: Effect> Consumer<S> for Count {
    const NAME: &'static str = "count";
    type Event = Done;

    async fn handle(&self, tx: &mut S::Conn, done: Received<Done>) -> Result<(), Failure> {
        self.add::<S>(tx, &done.counter).await
    }
}

impl Count {
    async fn add<S: Effect>(&self, tx: &mut S::Conn, counter: &str) -> Result<(), Failure> {
        self.stops.at(Point::Handler, counter).await;
        tokio::time::sleep(self.takes).await;
        S::add(tx, counter, std::process::id()).await?;
        self.stops.at(Point::Effect, counter).await;
        Ok(())
    }
}

/// The consumer of the newer version.
struct Tally(Count);

impl<S: Effect> Consumer<S> for Tally {
    const NAME: &'static str = "tally";
    type Event = Renamed;

    async fn handle(&self, tx: &mut S::Conn, done: Received<Renamed>) -> Result<(), Failure> {
        self.0.add::<S>(tx, &done.name).await
    }
}

/// The inbox, with a stop point after its commit and before the relay sees the result.
struct Behind<T> {
    inbox: T,
    stops: Stops,
}

#[async_trait]
impl<T: Transport> Transport for Behind<T> {
    fn lanes(&self) -> Vec<Lane> {
        self.inbox.lanes()
    }

    async fn prepare(&self, store: &dyn Store) -> postrider::Result<()> {
        self.inbox.prepare(store).await?;
        self.stops.at(Point::Ready, "").await;
        Ok(())
    }

    async fn deliver(&self, lane: &Lane, parcels: &[Parcel]) -> Vec<Outcome> {
        let delivered = self.inbox.deliver(lane, parcels).await;
        for (parcel, _) in parcels.iter().zip(&delivered).filter(|(_, delivered)| **delivered == Outcome::Completed) {
            self.stops.at(Point::Settled, parcel.envelope.event_id.as_str()).await;
        }
        delivered
    }
}

pub(crate) async fn consume<S: Effect>(store: S, stops: Stops, consume: Consume) -> Result<(), Box<dyn Error>> {
    // Registered before the worker prints that it is ready: without a handler, a SIGTERM would end the process at once.
    let mut terminate = signal(SignalKind::terminate())?;
    let lane = LaneOptions {
        concurrency: consume.concurrency,
        retry: RetryPolicy { max_attempts: consume.attempts, ..RetryPolicy::default() },
        ..LaneOptions::default()
    };
    let count = Count { stops: stops.clone(), takes: Duration::from_millis(consume.takes_ms) };
    let inbox = Inbox::new(store.clone());
    let inbox = if consume.newer { inbox.consumer_with(Tally(count), lane) } else { inbox.consumer_with(count, lane) };
    let options = RelayOptions {
        poll: Duration::from_millis(consume.poll_ms),
        owner: format!("worker-{}", std::process::id()),
        ..RelayOptions::default()
    };
    let relay = Relay::new(store, Behind { inbox, stops }).options(options);
    if consume.drain {
        relay.drain().await?;
    } else {
        relay.run(async { terminate.recv().await.unwrap_or_default() }).await?;
    }
    Ok(())
}
