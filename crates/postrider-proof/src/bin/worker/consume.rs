//! `worker relay`: consumes in its own transaction, until SIGTERM or until nothing is due.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use postrider::transport::{Lane, Outcome, Parcel};
use postrider::{
    Consumer, Event, Failure, Inbox, LaneOptions, Received, Relay, RelayOptions, RetryPolicy, Store, Transport,
};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::effect::Effect;
use crate::points::{Point, Stops};

#[derive(Args)]
pub(crate) struct Consume {
    /// Ends when nothing is due.
    #[arg(long)]
    drain: bool,
    /// How often to look when nobody says anything.
    #[arg(long, default_value_t = 1_000)]
    poll_ms: u64,
    /// How long the effect takes.
    #[arg(long, default_value_t = 0)]
    takes_ms: u64,
    /// How many handlers at a time.
    #[arg(long, default_value_t = 4)]
    concurrency: usize,
    /// Attempts before an event is given up.
    #[arg(long, default_value_t = 10)]
    attempts: u32,
}

/// What the worker's events say.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) counter: String,
}

impl Done {
    pub(crate) fn number(n: u32) -> Self {
        Self { counter: format!("e{n:05}") }
    }
}

impl Event for Done {
    const TOPIC: &'static str = "work.done";

    fn event_id(&self) -> Option<String> {
        Some(self.counter.clone())
    }
}

/// Adds one to the event's counter, and says where it is.
pub(crate) struct Count {
    pub(crate) stops: Stops,
    pub(crate) takes: Duration,
}

impl<S: Effect> Consumer<S> for Count {
    const NAME: &'static str = "count";
    type Event = Done;

    async fn handle(&self, tx: &mut S::Conn, done: Received<Done>) -> Result<(), Failure> {
        self.stops.at(Point::Handler, &done.counter).await;
        tokio::time::sleep(self.takes).await;
        S::add(tx, &done.counter, std::process::id()).await?;
        self.stops.at(Point::Effect, &done.counter).await;
        Ok(())
    }
}

/// The inbox, with a point behind it: what it delivered is committed, and only it knows.
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
    // Before anything says that it is ready: a SIGTERM that nobody waits for would end the process.
    let mut terminate = signal(SignalKind::terminate())?;
    let lane = LaneOptions {
        concurrency: consume.concurrency,
        retry: RetryPolicy { max_attempts: consume.attempts, ..RetryPolicy::default() },
        ..LaneOptions::default()
    };
    let count = Count { stops: stops.clone(), takes: Duration::from_millis(consume.takes_ms) };
    let inbox = Inbox::new(store.clone()).consumer_with(count, lane);
    let options = RelayOptions {
        poll: Duration::from_millis(consume.poll_ms),
        owner: format!("worker-{}", std::process::id()),
        ..RelayOptions::default()
    };
    let relay = Relay::new(store, Behind { inbox, stops }).options(options);
    match consume.drain {
        true => relay.drain().await?,
        false => relay.run(async { terminate.recv().await.unwrap_or_default() }).await?,
    }
    Ok(())
}
