//! A service: every loop that one store needs, started and stopped together.

use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::alert::{Alert, Alerting};
use crate::error::Result;
use crate::inbox::Inbox;
use crate::jobs::Jobs;
use crate::operations::{Operations, OperationsOptions};
use crate::relay::{Relay, RelayOptions};
use crate::retention::Retention;
use crate::rollup::{Rollup, RollupOptions};
use crate::store::{Enlist, IntoStore, Store};
use crate::transport::Transport;

/// Runs everything that belongs to a store: the relay with its router, the roll-up, bulk operations, jobs and the pruner.
/// Any number of instances may run it; they share the work.
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
pub struct Service {
    store: Arc<dyn Store>,
    relay: Relay,
    options: RelayOptions,
    jobs: Option<Arc<Jobs>>,
    alerting: Option<Alerting>,
}

impl Service {
    /// A service without consumers: it routes, keeps statuses and works on bulk operations.
    pub fn new(store: impl IntoStore) -> Self {
        let store = store.into_store();
        let relay = Relay::without_transport(Arc::clone(&store));
        Self { store, relay, options: RelayOptions::default(), jobs: None, alerting: None }
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

    /// Sets the options of the relay. The other loops take its [`owner`](RelayOptions::owner).
    #[must_use]
    pub fn relay_options(mut self, options: RelayOptions) -> Self {
        self.options = options;
        self
    }

    /// Works until `shutdown` is ready, or until one of the loops fails. Then all of them stop: each finishes what it has
    /// begun, as [`Relay::run`] and [`Jobs::run`] describe.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let Self { store, relay, options, jobs, alerting } = self;
        let stop = CancellationToken::new();
        let stopped = || stop.clone().cancelled_owned();
        let owner = || options.owner.clone();
        let rollup =
            Rollup::new(Arc::clone(&store)).options(RollupOptions { owner: owner(), ..RollupOptions::default() });
        let operations = OperationsOptions { owner: owner(), ..OperationsOptions::default() };
        let operations = Operations::new(Arc::clone(&store)).options(operations);
        let alerting = alerting.unwrap_or_else(|| Alerting::new(Arc::clone(&store)).owner(&options.owner));
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
        let (relay, rollup, operations, jobs, alerting, ()) = tokio::join!(
            stopping_all(&stop, relay.options(options.clone()).run(stopped())),
            stopping_all(&stop, rollup.run(stopped())),
            stopping_all(&stop, operations.run(stopped())),
            stopping_all(&stop, jobs),
            stopping_all(&stop, alerting.run(stopped())),
            signal,
        );
        relay.and(rollup).and(operations).and(jobs).and(alerting)
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
