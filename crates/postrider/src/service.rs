//! A service: every loop that one store needs, started and stopped together.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::alert::{Alert, Alerting};
use crate::error::Result;
use crate::inbox::Inbox;
use crate::jobs::Jobs;
use crate::operations::{Operations, OperationsOptions};
use crate::promises::Promises;
use crate::relay::{Relay, RelayOptions};
use crate::retention::Retention;
use crate::rollup::{Rollup, RollupOptions};
use crate::store::{Enlist, IntoStore, Store};
use crate::transport::Transport;

/// Runs everything that belongs to a store: the relay with its router, the roll-up, bulk operations, alerting, the checks of the promises, jobs and the
/// pruner. Any number of instances may run it; they share the work.
///
/// ```no_run
/// # use postrider::store::memory::MemoryStore;
/// # async fn example(store: MemoryStore, inbox: postrider::Inbox<MemoryStore>, jobs: postrider::Jobs) -> postrider::Result<()> {
/// use postrider::service::shutdown_signal;
/// use postrider::{Retention, Service};
///
/// let signal = shutdown_signal().expect("signals can be handled");
/// Service::new(store).inbox(inbox).jobs(jobs).retention(Retention::default()).run(signal).await
/// # }
/// ```
///
/// What runs without being asked for:
///
/// | loop | without it |
/// |---|---|
/// | [`Relay`], also without a transport | events that were written by plain `INSERT` are not routed |
/// | [`Rollup`] | lists show old statuses |
/// | [`Operations`] | bulk redrives wait |
/// | [`Alerting`] | no alert is sent |
/// | [`Promises`] | nothing compares the rows with what is promised |
///
/// [`Service::also`] adds a loop of your own, such as the receiver of a broker.
pub struct Service {
    store: Arc<dyn Store>,
    relay: Relay,
    options: RelayOptions,
    jobs: Option<Arc<Jobs>>,
    alerting: Option<Alerting>,
    promises: Option<Promises>,
    others: Vec<OtherLoop>,
    stop: CancellationToken,
}

/// A loop that the program adds.
type OtherLoop = Pin<Box<dyn Future<Output = Result<()>> + Send>>;
/// Resolves when a service stops.
pub type Stopping = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Service {
    /// A service without consumers: it routes, keeps statuses and works on bulk operations.
    pub fn new(store: impl IntoStore) -> Self {
        let store = store.into_store();
        let relay = Relay::without_transport(Arc::clone(&store));
        Self {
            store,
            relay,
            options: RelayOptions::default(),
            jobs: None,
            alerting: None,
            promises: None,
            others: Vec::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Delivers to the consumers of an inbox.
    #[must_use]
    pub fn inbox<S: Enlist>(self, inbox: Inbox<S>) -> Self {
        self.transport(inbox)
    }

    /// Delivers over a transport: the publisher of a broker, or one of your own.
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.relay = self.relay.transport(transport);
        self
    }

    /// Runs jobs.
    #[must_use]
    pub fn jobs(mut self, jobs: impl Into<Arc<Jobs>>) -> Self {
        self.jobs = Some(jobs.into());
        self
    }

    /// Removes what is finished and old. Without it everything is kept.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.relay = self.relay.retention(retention);
        self
    }

    /// Sends alarms here too, in addition to the log.
    #[must_use]
    pub fn also_alert(mut self, alert: impl Alert) -> Self {
        self.relay = self.relay.also_alert(alert);
        self
    }

    /// Sends alerts by these rules to this place. Without it they go to the log, by the default rules.
    #[must_use]
    pub fn alerting(mut self, alerting: Alerting) -> Self {
        self.alerting = Some(alerting);
        self
    }

    /// Checks the promises in this way: with the books of the service, for example.
    #[must_use]
    pub fn promises(mut self, promises: Promises) -> Self {
        self.promises = Some(promises);
        self
    }

    /// Runs one more loop, which begins and stops with the others and ends them if it fails:
    /// `service.also(|stopping| broker.receiver(inbox).run(stopping))`.
    #[must_use]
    pub fn also<W>(mut self, work: impl FnOnce(Stopping) -> W) -> Self
    where
        W: Future<Output = Result<()>> + Send + 'static,
    {
        self.others.push(Box::pin(work(Box::pin(self.stop.clone().cancelled_owned()))));
        self
    }

    /// Sets the options of the relay. The other loops take its [`owner`](RelayOptions::owner).
    #[must_use]
    pub fn relay_options(mut self, options: RelayOptions) -> Self {
        self.options = options;
        self
    }

    /// Works until `shutdown` is ready, or until one of the loops fails. Then all of them stop: each finishes what it has
    /// begun, as [`Relay::run`] and [`Jobs::run`] describe.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let Self { store, relay, options, jobs, alerting, promises, others, stop } = self;
        let stopped = || stop.clone().cancelled_owned();
        let owner = || options.owner.clone();
        let rollup =
            Rollup::new(Arc::clone(&store)).options(RollupOptions { owner: owner(), ..RollupOptions::default() });
        let operations = OperationsOptions { owner: owner(), ..OperationsOptions::default() };
        let operations = Operations::new(Arc::clone(&store)).options(operations);
        let alerting = alerting.unwrap_or_else(|| Alerting::new(Arc::clone(&store)).owner(&options.owner));
        let promises = promises.unwrap_or_else(|| Promises::new(Arc::clone(&store)).owner(&options.owner));
        let jobs = async {
            match &jobs {
                Some(jobs) => jobs.run(stopped()).await,
                None => {
                    stopped().await;
                    Ok(())
                }
            }
        };
        let signal = async {
            tokio::select! {
                () = shutdown => {}
                () = stop.cancelled() => {}
            }
            stop.cancel();
        };
        let others = join_all(others.into_iter().map(|work| stopping_all(&stop, work)));
        let (relay, rollup, operations, jobs, alerting, promises, others, ()) = tokio::join!(
            stopping_all(&stop, relay.options(options.clone()).run(stopped())),
            stopping_all(&stop, rollup.run(stopped())),
            stopping_all(&stop, operations.run(stopped())),
            stopping_all(&stop, jobs),
            stopping_all(&stop, alerting.run(stopped())),
            stopping_all(&stop, promises.run(stopped())),
            others,
            signal,
        );
        let upkeep = rollup.and(operations).and(alerting).and(promises);
        others.into_iter().fold(relay.and(upkeep).and(jobs), Result::and)
    }
}

/// Resolves on SIGTERM, which stops a service on servers, or on Ctrl-C. Listening begins with the call and not with the
/// first await: a signal in between would end the process at once.
#[cfg(unix)]
pub fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        let signal = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "Ctrl-C",
        };
        tracing::info!(signal, "stopping: what has begun is finished first");
    })
}

/// Resolves on Ctrl-C.
#[cfg(not(unix))]
pub fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
}

/// The end of one loop is the end of all.
async fn stopping_all(stop: &CancellationToken, work: impl Future<Output = Result<()>>) -> Result<()> {
    let ended = work.await;
    stop.cancel();
    ended
}
