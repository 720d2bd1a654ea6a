//! The relay: carries waiting deliveries to their transports. One pass is claim → deliver → settle; any number of relays,
//! in any number of processes, share the work.
//!
//! Inside, each lane is one task (`relay/lane.rs`) that claims, delivers and writes results at the same time. One more task
//! watches (`relay/watch.rs`): for pokes, due times, plain inserts to route, and a store that does not answer.

mod claiming;
mod deliver;
mod lane;
mod terms;
mod watch;
mod writing;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch as watch_channel;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::alert::{Alarm, Alert};
use crate::consumer::Failure;
use crate::error::{Error, Result};
use crate::jobs::Schedule;
use crate::observe;
use crate::retention::Retention;
use crate::shard::Shards;
use crate::store::{IntoStore, LaneSettings, Store};
use crate::transport::{Lane, Transport};
use lane::LaneTask;
use terms::Terms;

/// Alarms that wait to be sent, at most: further ones are counted as failed.
const ALARMS: usize = 1_000;

/// How long sending the last alarms may take when the relay stops.
const LAST_ALARMS: Duration = Duration::from_secs(5);

/// Carries deliveries to their transports until it is stopped.
///
/// ```no_run
/// # #[cfg(feature = "sqlite")]
/// # async fn example(inbox: postrider::Inbox<postrider::store::sqlite::SqliteStore>) -> postrider::Result<()> {
/// # use postrider::Relay;
/// # let store = postrider::store::sqlite::SqliteStore::connect("sqlite://shop.db").await?;
/// let ctrl_c = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
/// Relay::new(store, inbox).run(ctrl_c).await
/// # }
/// ```
pub struct Relay {
    store: Arc<dyn Store>,
    transports: Vec<Arc<dyn Transport>>,
    options: RelayOptions,
    alerts: Vec<Arc<dyn Alert>>,
    retention: Option<Retention>,
}

/// The options of a relay.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// How long a claim lasts unless it is extended, which happens while work goes on.
    pub lease: Duration,
    /// Which shards to work on.
    pub shards: Shards,
    /// Which lanes to work on; `None` for all lanes of its transports.
    pub lanes: Option<BTreeSet<String>>,
    /// How often to look for work without a wake-up.
    pub poll: Duration,
    /// How often to ask for events from plain `INSERT`s: one look into an index that is nearly always empty. A relay of a
    /// database without plain inserts may ask less often.
    pub arrivals: Duration,
    /// Times at which to look, in addition to `poll`.
    pub floor: Option<Schedule>,
    /// How long work in progress may take to finish after the relay was stopped.
    pub grace: Duration,
    /// How old a snapshot of the database may get before an alarm names its holder.
    pub snapshot_age: Duration,
    /// The name under which it holds leases, for operators. A random suffix is added, so that a restart has another name.
    pub owner: String,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            shards: Shards::ALL,
            lanes: None,
            poll: Duration::from_secs(1),
            arrivals: Duration::from_millis(20),
            floor: None,
            grace: Duration::from_secs(25),
            // Longer than a report takes on a database that can deliver events.
            snapshot_age: Duration::from_secs(300),
            owner: "relay".into(),
        }
    }
}

/// What all tasks of one relay share.
pub(crate) struct RelayShared {
    store: Arc<dyn Store>,
    options: RelayOptions,
    owner: String,
    health: Health,
    stop: CancellationToken,
    alarms: mpsc::Sender<Alarm>,
    /// Asks the watcher to look: something is due sooner than it knows, or nothing may be left.
    look: Notify,
    /// The lanes that rest: paused by an operator, or their consumers get their events another way.
    paused: Mutex<BTreeSet<String>>,
    terms: Mutex<Arc<Terms>>,
    /// Stop as soon as nothing is due.
    until_drained: bool,
}

impl RelayShared {
    /// Logs an alarm, and queues it for the other sinks.
    fn alarm(&self, alarm: Alarm) {
        alarm.log();
        if self.alarms.try_send(alarm).is_err() {
            observe::alert_failed();
        }
    }

    fn terms(&self) -> Arc<Terms> {
        Arc::clone(&self.terms.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_paused(&self, lane: &str) -> bool {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner).contains(lane)
    }
}

impl Relay {
    /// A relay between a store and a transport.
    pub fn new(store: impl IntoStore, transport: impl Transport) -> Self {
        Self::without_transport(store).transport(transport)
    }

    /// A relay that only routes, until it gets a transport.
    pub(crate) fn without_transport(store: impl IntoStore) -> Self {
        let store = store.into_store();
        Self { store, transports: Vec::new(), options: RelayOptions::default(), alerts: Vec::new(), retention: None }
    }

    /// Also serves the lanes of another transport.
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transports.push(Arc::new(transport));
        self
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: RelayOptions) -> Self {
        self.options = options;
        self
    }

    /// Sends alarms here too. Every alarm is also an error in the log: a delivery that is DEAD, with its code and key, or a
    /// snapshot of the database that is held too long.
    #[must_use]
    pub fn also_alert(mut self, alert: impl Alert) -> Self {
        self.alerts.push(Arc::new(alert));
        self
    }

    /// Removes what is finished once it is older than this. Without it everything is kept. One relay at a time prunes.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Works until `shutdown` is ready. Then nothing more is claimed, what was not begun is released without counting an
    /// attempt, and work in progress has [`RelayOptions::grace`] to finish. What has not finished then is left to its
    /// lease, since it is not known whether it had its effect.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.work(shutdown, false).await
    }

    /// Works until nothing is due, then stops as [`Relay::run`] does: for tests, and for programs started by a timer.
    pub async fn drain(self) -> Result<()> {
        self.work(std::future::pending(), true).await
    }

    async fn work(self, shutdown: impl Future<Output = ()> + Send, until_drained: bool) -> Result<()> {
        let (store, options) = (self.store, self.options);
        store.check_schema().await?;
        let mut lanes = Vec::new();
        for transport in &self.transports {
            transport.prepare(&*store).await?;
            let wanted = transport.lanes().into_iter();
            let wanted = wanted.filter(|lane| options.lanes.as_ref().is_none_or(|names| names.contains(&*lane.name)));
            lanes.extend(wanted.map(|lane| (lane, Arc::clone(transport))));
        }
        let names: BTreeSet<_> = lanes.iter().map(|(lane, _)| Arc::clone(&lane.name)).collect();
        if names.len() < lanes.len() {
            return Err(Error::Unsupported("two transports of one relay serve the same lane: leave one out".into()));
        }

        if let Some(retention) = &self.retention {
            for (lane, _) in &lanes {
                let policies = lane.options.retry_by_code.values();
                policies.chain([&lane.options.retry]).try_for_each(|policy| retention.check(policy))?;
            }
        }
        record_lanes(&*store, lanes.iter().map(|(lane, _)| lane)).await;
        let terms = Terms::read(&store.subscriptions(None).await?);
        let mut paused = store.paused().await?;
        let served = lanes.iter().map(|(lane, transport)| (&*lane.name, transport.via()));
        terms.rest(served, &BTreeSet::new(), &mut paused);
        let (alarms, alarmed) = mpsc::channel(ALARMS);
        let shared = Arc::new(RelayShared {
            owner: format!("{}-{}", options.owner, &Uuid::new_v4().simple().to_string()[..8]),
            store,
            options,
            health: Health::default(),
            stop: CancellationToken::new(),
            alarms,
            look: Notify::new(),
            paused: Mutex::new(paused),
            terms: Mutex::new(Arc::new(terms)),
            until_drained,
        });
        // The tasks end when this future ends or is dropped.
        let _stop = shared.stop.clone().drop_guard();
        tracing::info!(owner = %shared.owner, lanes = ?names, "the relay has started");
        let mut working = JoinSet::new();
        let mut notifiers = Vec::new();
        for (lane, transport) in lanes {
            let notifier = watch::LaneNotifier::new(&lane, transport.via());
            notifiers.push(notifier.clone());
            working.spawn(LaneTask::new(Arc::clone(&shared), lane, transport, notifier).run());
        }
        let present: Vec<_> = names.iter().map(|lane| shared.store.wake().presence().lane(lane)).collect();
        let mut upkeep = JoinSet::new();
        upkeep.spawn(watch::watch(Arc::clone(&shared), notifiers.clone()));
        upkeep.spawn(watch::listen(Arc::clone(&shared), notifiers));
        upkeep.spawn(watch::keep_figures(Arc::clone(&shared), names));
        let mut alerting = JoinSet::new();
        alerting.spawn(send_alarms(self.alerts, alarmed));
        let mut beating = JoinSet::new();
        // A drain ends soon: what it does is no reason to count on it.
        if !until_drained {
            beating.spawn(watch::beat(Arc::clone(&shared)));
        }
        if let Some(retention) = self.retention {
            upkeep.spawn(watch::prune(Arc::clone(&shared), retention));
        }

        tokio::select! {
            () = shutdown => {}
            () = shared.stop.cancelled() => {}
            // Without lanes this never happens: the relay still routes, and announces to other relays.
            Some(ended) = working.join_next(), if !shared.stop.is_cancelled() => {
                if !shared.stop.is_cancelled() {
                    return Err(ended_early(ended));
                }
            }
        }
        shared.stop.cancel();
        let grace = shared.options.grace;
        let finished = tokio::time::timeout(grace, async {
            while let Some(ended) = working.join_next().await {
                if let Err(e) = ended {
                    tracing::error!(error = %e, "a lane has panicked");
                }
            }
        });
        match finished.await {
            Ok(()) => tracing::info!(owner = %shared.owner, "the relay has finished"),
            Err(_) => tracing::warn!(owner = %shared.owner, ?grace, "unfinished work is left to its lease"),
        }
        drop(present);
        working.shutdown().await;
        upkeep.shutdown().await;
        while beating.join_next().await.is_some() {}
        // This drops the last sender of alarms, so the task ends once it has sent the last one.
        drop(shared);
        let _ = tokio::time::timeout(LAST_ALARMS, alerting.join_next()).await;
        Ok(())
    }
}

/// Records how each lane works, where that has changed. Only people and checks read it, so an error stops nothing.
async fn record_lanes(store: &dyn Store, lanes: impl Iterator<Item = &Lane> + Send) {
    let record = async {
        let known = store.lanes().await?;
        for lane in lanes {
            let settings =
                LaneSettings { max_attempts: lane.options.retry.max_attempts, history: lane.options.history };
            if known.get(&*lane.name) != Some(&settings) {
                store.record_lane(&lane.name, settings).await?;
            }
        }
        Ok::<_, Error>(())
    };
    if let Err(error) = record.await {
        let error = Failure::from(error);
        tracing::warn!(%error, "views and the API may show another number of attempts than is configured");
    }
}

fn ended_early(ended: Result<(), tokio::task::JoinError>) -> Error {
    Error::Store(match ended {
        Ok(()) => "a lane of the relay has ended by itself".into(),
        Err(e) => e.into(),
    })
}

/// Sends alarms, one by one, until all senders are gone.
async fn send_alarms(alerts: Vec<Arc<dyn Alert>>, mut alarms: mpsc::Receiver<Alarm>) {
    while let Some(alarm) = alarms.recv().await {
        alarm.send(&alerts).await;
    }
}

/// Whether the store answers. While it does not, one task asks it and all others wait: otherwise an outage would become a
/// storm of connections.
struct Health {
    up: watch_channel::Sender<bool>,
}

impl Default for Health {
    fn default() -> Self {
        Self { up: watch_channel::Sender::new(true) }
    }
}

impl Health {
    fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Records an error. Returns true if the store does not answer, so that what failed may be done again later.
    fn note(&self, error: &Error) -> bool {
        let away = matches!(error, Error::Unavailable(_));
        if away && self.up.send_replace(false) {
            observe::store_unavailable();
            let error = Failure::from_error(error);
            tracing::error!(%error, "the store does not answer: the relay waits for it");
        }
        away
    }

    /// The store has answered.
    fn recovered(&self) {
        if !self.up.send_replace(true) {
            tracing::info!("the store answers again");
        }
    }

    /// Waits until the store answers.
    async fn up(&self) {
        // Fails only if the sender is dropped, and it lives in `self`.
        let _ = self.up.subscribe().wait_for(|up| *up).await;
    }

    /// Waits until the store does not answer.
    async fn down(&self) {
        let _ = self.up.subscribe().wait_for(|up| !*up).await;
    }
}
