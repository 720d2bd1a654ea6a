//! The relay: brings what waits to where it has its effect. One pass is claim → deliver → settle; any number of relays,
//! in any number of processes, share the work.
//!
//! Inside, each lane is one task (`relay/lane.rs`) that claims, delivers and writes down results side by side, and one
//! task watches (`relay/watch.rs`): for pokes, for what falls due, for plain inserts to route, for a store that is away.

mod deliver;
mod health;
mod lane;
mod outcomes;
mod rate;
mod watch;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::alert::{Alarm, Alert, LogAlert};
use crate::error::{Error, Result};
use crate::jobs::Schedule;
use crate::observe;
use crate::retention::Retention;
use crate::shard::Shards;
use crate::store::{DeadHead, Store};
use crate::transport::Transport;
use health::Health;
use lane::LaneTask;

/// Alarms that wait to be passed on, at most: past that they are counted as failed.
const ALARMS: usize = 1_000;

/// How long the last alarms may take to be passed on when the relay stops.
const LAST_ALARMS: Duration = Duration::from_secs(5);

/// Brings deliveries to their transports until it is told to stop.
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
    alert: Arc<dyn Alert>,
    retention: Option<Retention>,
}

/// What a user may choose for a relay.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// How long a claim lasts unless it is extended, which happens while work goes on.
    pub lease: Duration,
    /// Which shards to work on.
    pub shards: Shards,
    /// Which lanes to work on; None: all that its transports have.
    pub lanes: Option<BTreeSet<String>>,
    /// What a DEAD delivery does to the later ones of its key.
    pub dead_head: DeadHead,
    /// How often to look when nobody pokes.
    pub poll: Duration,
    /// Times at which to look in any case, whatever `poll` says.
    pub floor: Option<Schedule>,
    /// How long what is in flight may take to finish once the relay is told to stop.
    pub grace: Duration,
    /// How old a snapshot of the database may get before an alarm names whoever holds it.
    pub snapshot_age: Duration,
    /// Who holds its leases, for people: an incarnation is added, so that a restart is somebody else.
    pub owner: String,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            shards: Shards::ALL,
            lanes: None,
            dead_head: DeadHead::Hold,
            poll: Duration::from_secs(1),
            floor: None,
            grace: Duration::from_secs(25),
            // Longer than any report should take on a database that events go through.
            snapshot_age: Duration::from_secs(300),
            owner: "relay".into(),
        }
    }
}

/// What all tasks of one relay share.
pub(crate) struct Shared {
    store: Arc<dyn Store>,
    options: RelayOptions,
    owner: String,
    health: Health,
    stop: CancellationToken,
    alarms: mpsc::Sender<Alarm>,
    /// Something falls due sooner than the watcher knows, or there may be nothing left.
    look: Notify,
    paused: Mutex<BTreeSet<String>>,
    /// Stop as soon as nothing is due.
    until_drained: bool,
}

impl Shared {
    fn alarm(&self, alarm: Alarm) {
        if self.alarms.try_send(alarm).is_err() {
            observe::alert_failed();
        }
    }

    fn is_paused(&self, lane: &str) -> bool {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner).contains(lane)
    }
}

impl Relay {
    /// A relay between a store and a transport.
    pub fn new(store: impl Store, transport: impl Transport) -> Self {
        Self::over(Arc::new(store), Arc::new(transport))
    }

    /// The same for those who share them.
    pub fn over(store: Arc<dyn Store>, transport: Arc<dyn Transport>) -> Self {
        Self {
            store,
            transports: vec![transport],
            options: RelayOptions::default(),
            alert: Arc::new(LogAlert),
            retention: None,
        }
    }

    /// Serves the lanes of another transport too.
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transports.push(Arc::new(transport));
        self
    }

    /// Other options than the usual.
    #[must_use]
    pub fn options(mut self, options: RelayOptions) -> Self {
        self.options = options;
        self
    }

    /// Where alarms go, instead of the log.
    #[must_use]
    pub fn alert(mut self, alert: impl Alert) -> Self {
        self.alert = Arc::new(alert);
        self
    }

    /// Removes what is finished once it is older than this. Without it everything is kept. Of many relays one does it at
    /// a time.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Works until `shutdown` is ready. Then nothing more is claimed, what was not begun is given back without counting an
    /// attempt, and what is in flight has [`RelayOptions::grace`] to finish. What has not finished then is left to its
    /// lease: whether it had its effect is not known.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.work(shutdown, false).await
    }

    /// Works until nothing is due, then stops as [`Relay::run`] does: for tests, and for programs that a timer starts.
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
        let paused = Mutex::new(store.paused().await?);
        let (alarms, alarmed) = mpsc::channel(ALARMS);
        let shared = Arc::new(Shared {
            owner: format!("{}-{}", options.owner, &Uuid::new_v4().simple().to_string()[..8]),
            store,
            options,
            health: Health::default(),
            stop: CancellationToken::new(),
            alarms,
            look: Notify::new(),
            paused,
            until_drained,
        });
        // Whatever ends this future ends its tasks too.
        let _stop = shared.stop.clone().drop_guard();
        tracing::info!(owner = %shared.owner, lanes = ?names, "the relay begins");
        let mut working = JoinSet::new();
        let mut bells = Vec::new();
        for (lane, transport) in lanes {
            let bell = watch::Bell::new(&lane);
            bells.push(bell.clone());
            working.spawn(LaneTask::new(Arc::clone(&shared), lane, transport, bell).run());
        }
        let mut beside = JoinSet::new();
        beside.spawn(watch::watch(Arc::clone(&shared), bells.clone()));
        beside.spawn(watch::listen(Arc::clone(&shared), bells));
        beside.spawn(watch::keep_figures(Arc::clone(&shared)));
        let mut passing_on = JoinSet::new();
        passing_on.spawn(pass_on(self.alert, alarmed));
        if let Some(retention) = self.retention {
            beside.spawn(watch::prune(Arc::clone(&shared), retention));
        }

        tokio::select! {
            () = shutdown => {}
            () = shared.stop.cancelled() => {}
            // A relay without lanes still looks after the router and the others' wake-up.
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
                    tracing::error!(error = %e, "a lane ended badly");
                }
            }
        });
        match finished.await {
            Ok(()) => tracing::info!(owner = %shared.owner, "the relay has finished"),
            Err(_) => tracing::warn!(owner = %shared.owner, ?grace, "what is still in flight is left to its lease"),
        }
        // Nobody is left to raise an alarm; those that were raised last are passed on.
        working.shutdown().await;
        beside.shutdown().await;
        drop(shared);
        let _ = tokio::time::timeout(LAST_ALARMS, passing_on.join_next()).await;
        Ok(())
    }
}

fn ended_early(ended: Result<(), tokio::task::JoinError>) -> Error {
    Error::Store(match ended {
        Ok(()) => "a lane of the relay has ended by itself".into(),
        Err(e) => e.into(),
    })
}

/// Passes alarms on, one by one, until nobody is left to raise one.
async fn pass_on(alert: Arc<dyn Alert>, mut alarms: mpsc::Receiver<Alarm>) {
    while let Some(alarm) = alarms.recv().await {
        if let Err(error) = alert.alert(&alarm).await {
            observe::alert_failed();
            tracing::error!(%alarm, error = %error, "an alarm could not be passed on");
        }
    }
}
