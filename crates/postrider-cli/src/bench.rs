//! `postrider bench`: load against a store, by a topic and a consumer that exist only meanwhile.

mod figures;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clap::Args;
use indicatif::ProgressBar;
use postrider::store::{History, Prunable, Prune, connect};
use postrider::transport::{Lane, Outcome, Parcel};
use postrider::{Bus, Draft, Error, LaneOptions, Relay, RelayOptions, Store, Subscription, Transport, Via};
use time::OffsetDateTime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::server;
use crate::{Context, End, print_note};
use figures::Figures;

/// The topic of the load, and its only consumer.
const TOPIC: &str = "bench.load";
const CONSUMER: &str = "bench-load";
/// How long to wait for a delivery while events wait.
const STALLED: Duration = Duration::from_secs(60);
/// Events that one step of the cleaning reads.
const CLEANED: u32 = 500;

/// Measure a store: write events, deliver them, print rates and latencies
#[derive(Args)]
#[command(after_help = "Examples:
  postrider bench --store postgres://app@localhost/shop
  postrider bench --events 1000 --payload-bytes 4096 --concurrency 32 -o json

Each event is one transaction. The latency of a delivery is counted from before its event is written until after it is
claimed. The events, their deliveries and the subscription are removed at the end, also after Ctrl-C.
Exits with 4 if it was interrupted.")]
pub(crate) struct Bench {
    /// The store
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Write this many events at most
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    events: u64,
    /// Write for this long at most
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// The size of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(2..=1_048_576))]
    payload_bytes: u32,
    /// Write with this many tasks at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    concurrency: u32,
    /// Run although deliveries of others wait in the store
    #[arg(long)]
    beside_waiting_work: bool,
}

impl Bench {
    pub(crate) async fn run(self, context: &Context) -> Result<(), End> {
        let url = context.flags.load(vec![server::STORE.to(self.store.as_deref())])?.get(&server::STORE);
        let store = connect(&url).await?;
        store.check_schema().await?;
        self.check_idle(&*store).await?;
        let signal = postrider::service::shutdown_signal().map_err(|e| End::Wrong(e.to_string()))?;
        let interrupted = CancellationToken::new();
        let listening = tokio::spawn({
            let interrupted = interrupted.clone();
            async move {
                signal.await;
                interrupted.cancel();
            }
        });

        store.set_subscription(&Subscription::new(TOPIC, CONSUMER, Via::Local)).await?;
        let first = OnceLock::new();
        let measured = self.measure(&store, &interrupted, &first).await;
        // Also after an error: what can be removed is removed.
        let cleaned = clean(&*store, first.get()).await;
        listening.abort();
        measured?.print(context.output, store.name(), &self);
        cleaned?;
        if interrupted.is_cancelled() {
            print_note("interrupted: these are the figures until then");
            return Err(End::Partly);
        }
        Ok(())
    }

    /// Refuses a store in which the load would meet the work of others.
    async fn check_idle(&self, store: &dyn Store) -> Result<(), End> {
        let subscriptions = store.subscriptions(None).await?;
        let of_others = subscriptions
            .iter()
            .map(|one| &one.subscription)
            .find(|one| one.enabled && (one.topic == "*" || one.topic == TOPIC) && one.consumer != CONSUMER);
        if let Some(other) = of_others {
            let (topic, consumer) = (&other.topic, &other.consumer);
            return Err(End::Wrong(format!(
                "{consumer} subscribes to {topic} and would receive the events of the load: use another store"
            )));
        }
        let counts = store.counts().await?;
        let waiting: u64 = counts.values().map(|lane| lane.new + lane.processing + lane.failed).sum();
        if waiting > 0 && !self.beside_waiting_work {
            return Err(End::Wrong(format!(
                "{waiting} deliveries wait in this store: use another store, or add --beside-waiting-work"
            )));
        }
        Ok(())
    }

    /// Writes and delivers. `first` becomes the id of the first event, which no other one precedes.
    async fn measure(
        &self,
        store: &Arc<dyn Store>,
        interrupted: &CancellationToken,
        first: &OnceLock<String>,
    ) -> Result<Figures, End> {
        let delivered = Arc::new(Delivered::default());
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let options = RelayOptions { owner: CONSUMER.into(), ..RelayOptions::default() };
        let relay = Relay::new(Arc::clone(store), Recorder(Arc::clone(&delivered))).options(options);
        let relay = tokio::spawn(relay.run(stop.clone().cancelled_owned()));

        let bus = Bus::new(Arc::clone(store));
        // Opens connections and prepares statements, so it is not counted.
        let (id, _) = write(&bus, self.payload_bytes).await?;
        first.get_or_init(|| id);
        delivered.wait_for(1).await?;
        delivered.latencies().clear();

        let began = Instant::now();
        let written = self.write_all(&bus, interrupted, began).await?;
        let wrote_for = began.elapsed();
        delivered.wait_for(written.len()).await?;
        let delivered_for = began.elapsed();
        stop.cancel();
        relay.await.map_err(|e| End::Wrong(format!("the relay panicked: {e}")))??;
        let latencies = std::mem::take(&mut *delivered.latencies());
        Ok(Figures::new((written, wrote_for), (latencies, delivered_for)))
    }

    /// Writes until there are enough events, the time is over, or it is interrupted. Returns how long each took.
    async fn write_all(
        &self,
        bus: &Bus,
        interrupted: &CancellationToken,
        began: Instant,
    ) -> Result<Vec<Duration>, End> {
        let (until, begun) = (began + Duration::from_secs(self.seconds), Arc::new(AtomicU64::new(0)));
        let bar = ProgressBar::new(self.events);
        let mut writers = JoinSet::new();
        for _ in 0..self.concurrency {
            let (bus, interrupted, begun, bar) = (bus.clone(), interrupted.clone(), Arc::clone(&begun), bar.clone());
            let (events, bytes) = (self.events, self.payload_bytes);
            writers.spawn(async move {
                let mut took = Vec::new();
                while !interrupted.is_cancelled()
                    && Instant::now() < until
                    && begun.fetch_add(1, Ordering::Relaxed) < events
                {
                    took.push(write(&bus, bytes).await?.1);
                    bar.inc(1);
                }
                Ok::<_, Error>(took)
            });
        }
        let mut all = Vec::new();
        while let Some(took) = writers.join_next().await {
            all.extend(took.map_err(|e| End::Wrong(format!("a writer panicked: {e}")))??);
        }
        bar.finish_and_clear();
        Ok(all)
    }
}

/// Writes one event. Returns its id, and how long it took.
async fn write(bus: &Bus, bytes: u32) -> Result<(String, Duration), Error> {
    let began = Instant::now();
    // A JSON string: two bytes are its quotes.
    let event = bus.prepare(Draft::json(TOPIC, &"x".repeat(bytes as usize - 2))?)?;
    let id = event.envelope.event_id.to_string();
    bus.publish(&[event]).await?;
    Ok((id, began.elapsed()))
}

/// Removes the subscription, and the events from the first one on.
async fn clean(store: &dyn Store, first: Option<&String>) -> Result<(), End> {
    store.remove_subscription(TOPIC, CONSUMER).await?;
    let Some(first) = first else { return Ok(()) };
    let Some(first) = store.find(first).await? else { return Ok(()) };
    let mut after = Some(first.sequence - 1);
    while let Some(from) = after {
        let stretch = Prune { what: Prunable::Events, older_than: Duration::ZERO, after: from, limit: CLEANED };
        let finished = store.finished(&stretch).await?;
        let of_load = finished.events.iter().filter(|event| event.envelope.topic == TOPIC);
        let sequences: Vec<_> = of_load.map(|event| event.sequence).collect();
        store.prune_events(&sequences).await?;
        after = finished.next;
    }
    match store.counts().await?.get(CONSUMER) {
        None => Ok(()),
        Some(left) => Err(End::Wrong(format!(
            "{} events of the topic {TOPIC} could not be delivered and are left in the store",
            left.new + left.processing + left.failed + left.dead
        ))),
    }
}

/// How long each delivery took.
#[derive(Default)]
struct Delivered {
    latencies: Mutex<Vec<Duration>>,
    changed: tokio::sync::Notify,
}

impl Delivered {
    fn latencies(&self) -> std::sync::MutexGuard<'_, Vec<Duration>> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for(&self, deliveries: usize) -> Result<(), End> {
        while self.latencies().len() < deliveries {
            if tokio::time::timeout(STALLED, self.changed.notified()).await.is_err() {
                return Err(End::Wrong(format!("nothing was delivered for {} seconds", STALLED.as_secs())));
            }
        }
        Ok(())
    }
}

/// Records when deliveries arrive.
struct Recorder(Arc<Delivered>);

#[async_trait]
impl Transport for Recorder {
    fn lanes(&self) -> Vec<Lane> {
        let options = LaneOptions { history: History::Omit, ..LaneOptions::default() };
        let at_once = options.batch as usize;
        vec![Lane { name: CONSUMER.into(), topics: vec![TOPIC.into()], at_once, options }]
    }

    async fn prepare(&self, _: &dyn Store) -> postrider::Result<()> {
        Ok(())
    }

    async fn deliver(&self, _: &Lane, parcels: &[Parcel]) -> Vec<Outcome> {
        let now = OffsetDateTime::now_utc();
        let took = |parcel: &Parcel| Duration::try_from(now - parcel.envelope.occurred_at).unwrap_or_default();
        self.0.latencies().extend(parcels.iter().map(took));
        self.0.changed.notify_one();
        parcels.iter().map(|_| Outcome::Done).collect()
    }
}
