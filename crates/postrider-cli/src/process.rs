//! A serving process: its plan from the configuration, its endpoint, and the tasks that run until it is stopped.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use postrider::alert::{AlertRules, Alerting, NotifyWebhook};
use postrider::jobs::Schedule;
use postrider::observe;
use postrider::operations::{Operations, OperationsOptions};
use postrider::promises::{BooksCheck, Promises};
use postrider::redrive::RedriveRules;
use postrider::store::DeadHead;
use postrider::transport::rabbitmq::{Publisher, RabbitMqOptions, Reconciler};
use postrider::transport::webhook::{WebhookOptions, WebhookSecret, Webhooks};
use postrider::{
    LaneOptions, RabbitMq, Relay, RelayOptions, Retention, RetryPolicy, Rollup, RollupOptions, Shards, Store, Unheard,
};
use postrider_server::{BasePath, ConnectionLimits, Mask, Options, Server, Setting, Tls, check_listen};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Origin, server};
use crate::{End, embedded};

/// Signals within this time count as one: a terminal and a supervisor may both send it.
const SAME: Duration = Duration::from_secs(1);
/// The interval of the exporter's upkeep.
const UPKEEP: Duration = Duration::from_secs(5);

/// The options of all parts, from the configuration.
pub(crate) struct Plan {
    pub(crate) retry: RetryPolicy,
    redrive: RedriveRules,
    relay: RelayOptions,
    pub(crate) retention: Retention,
    webhooks: WebhookOptions,
    broker: Option<RabbitMq>,
    broker_lane: LaneOptions,
    alerts: AlertRules,
    notify: Option<NotifyWebhook>,
    environment: String,
    links: BTreeMap<String, String>,
    mask: Mask,
}

impl Plan {
    pub(crate) fn of(config: &Config, owner: &str, shards: Shards) -> Result<Self, End> {
        let retry = RetryPolicy {
            max_attempts: config.get(&server::OUTBOX_MAX_RETRY_COUNT),
            cap: config.get(&server::OUTBOX_BACKOFF_CAP),
            jitter: config.get(&server::OUTBOX_BACKOFF_JITTER),
            ..RetryPolicy::default()
        };
        let lanes = LaneOptions {
            retry: retry.clone(),
            batch: config.get(&server::OUTBOX_BATCH_SIZE),
            claim_bytes: config.get(&server::LIMITS_CLAIM_BYTES) as usize,
            lane_bytes: config.get(&server::LIMITS_LANE_BYTES) as usize,
            dead_head: dead_head(config),
            ..LaneOptions::default()
        };
        let usual = Publisher::default_options();
        let broker_lane = LaneOptions {
            // The default of other lanes would leave channels idle.
            batch: match config.origin(&server::OUTBOX_BATCH_SIZE) {
                Origin::Default => usual.batch,
                _ => lanes.batch,
            },
            concurrency: usual.concurrency,
            ..lanes.clone()
        };
        let cron = config.get(&server::OUTBOX_PUBLISHER_CRON);
        let poll = Schedule::parse(&cron, &config.get(&server::SCHEDULER_TIME_ZONE));
        let relay = RelayOptions {
            lease: config.get(&server::OUTBOX_LEASE),
            shards,
            floor: Some(poll.map_err(|e| config.refuse(&server::OUTBOX_PUBLISHER_CRON, e))?),
            owner: format!("{owner}-{}", std::process::id()),
            ..RelayOptions::default()
        };
        let redrive = RedriveRules {
            max_count: config.get(&server::REDRIVE_MAX_COUNT),
            sent_older_than: config.get(&server::REDRIVE_SENT_OLDER_THAN),
            horizon: config.get(&server::REDRIVE_HORIZON),
        };
        let retention = Retention {
            finished: config.get(&server::RETENTION_FINISHED),
            inbox: config.get(&server::RETENTION_INBOX),
            redrive_horizon: redrive.horizon,
            archive: config.get(&server::RETENTION_ARCHIVE_DIR).map(Into::into),
            ..Retention::default()
        };
        retention.check(&retry).map_err(|e| config.refuse(&server::RETENTION_INBOX, e))?;
        let mut secrets: Vec<WebhookSecret> = Vec::new();
        for key in [server::WEBHOOK_SECRET, server::WEBHOOK_PREVIOUS_SECRET] {
            if let Some(text) = config.get(&key) {
                secrets.push(text.parse().map_err(|e| config.refuse(&key, e))?);
            }
        }
        let webhooks = WebhookOptions {
            secrets,
            timeout: config.get(&server::WEBHOOK_TIMEOUT),
            allow_hosts: config.get(&server::WEBHOOK_ALLOW_HOSTS),
            lanes,
        };
        let broker = config.get(&server::BROKER).as_deref().map(RabbitMq::new).transpose();
        let broker = broker.map_err(|e| config.refuse(&server::BROKER, e))?;
        let confirm = RabbitMqOptions::default().confirm_timeout;
        if broker.is_some() && relay.lease <= confirm {
            // Another relay would send an event again while this one still waits.
            let why = format!("the broker may take {} seconds to confirm: set more than that", confirm.as_secs());
            return Err(config.refuse(&server::OUTBOX_LEASE, why).into());
        }
        let alerts = AlertRules {
            dead_per_hour: config.get(&server::ALERT_DEAD_PER_HOUR),
            oldest: config.get(&server::ALERT_OLDEST),
            stalled: config.get(&server::ALERT_STALLED),
            broker_blocked: config.get(&server::ALERT_BROKER_BLOCKED),
            store_away: config.get(&server::ALERT_STORE_AWAY),
        };
        let notify = notify(config)?;
        let environment = config.get(&server::SERVER_ENVIRONMENT);
        let links = links(config)?;
        let mask = Mask::parse(&config.get(&server::SERVER_MASK));
        let mask = mask.map_err(|e| config.refuse(&server::SERVER_MASK, e))?;
        Ok(Self {
            retry,
            redrive,
            relay,
            retention,
            webhooks,
            broker,
            broker_lane,
            alerts,
            notify,
            environment,
            links,
            mask,
        })
    }

    /// The reconciler of the broker, if there is one, for all stores that publish to it.
    pub(crate) fn reconciler(&self, stores: &[Arc<dyn Store>]) -> Option<Reconciler> {
        let (first, others) = stores.split_first()?;
        let reconciler = self.broker.as_ref()?.reconciler(Arc::clone(first));
        let reconciler = others.iter().map(Arc::clone).fold(reconciler, Reconciler::also);
        Some(reconciler.retry(&self.retry).owner(&self.relay.owner))
    }

    /// The options of the API.
    pub(crate) fn options(
        &self,
        config: &Config,
        endpoint: &Endpoint,
        metrics: PrometheusHandle,
        broker: Option<Reconciler>,
    ) -> Options {
        Options {
            retry: self.retry.clone(),
            lease: self.relay.lease,
            redrive: self.redrive,
            dead_head: dead_head(config),
            unheard: match config.get(&server::BUS_UNHEARD).as_str() {
                "keep" => Unheard::Keep,
                "refuse" => Unheard::Refuse,
                _ => Unheard::Skip,
            },
            payload_bytes: usize::try_from(config.get(&server::LIMITS_PAYLOAD_BYTES)).unwrap_or(usize::MAX),
            claim_bytes: config.get(&server::LIMITS_CLAIM_BYTES) as usize,
            requests_per_second: config.get(&server::LIMITS_REQUESTS_PER_SECOND),
            connections: connection_limits(config),
            longest_wait: config.get(&server::LIMITS_WAIT),
            broker,
            webhooks: !self.webhooks.secrets.is_empty(),
            webhook_hosts: self.webhooks.allow_hosts.clone(),
            secure: endpoint.encrypted,
            settings: config.settings().into_iter().map(setting).collect(),
            metrics: Some(metrics),
            retention: self.retention.clone(),
            audit: config.get(&server::RETENTION_AUDIT),
            mask: self.mask.clone(),
            store_kind: store_kind(&config.get(&server::STORE)).into(),
            environment: config.get(&server::SERVER_ENVIRONMENT),
            links: self.links.clone(),
            base_path: endpoint.base_path.clone(),
            console: embedded::console(),
            ..Options::default()
        }
    }
}

fn connection_limits(config: &Config) -> ConnectionLimits {
    ConnectionLimits {
        connections: config.get(&server::SERVER_MAX_CONNECTIONS) as usize,
        per_peer: config.get(&server::SERVER_CONNECTIONS_PER_PEER) as usize,
        header: config.get(&server::SERVER_HEADER),
        body: config.get(&server::SERVER_BODY),
        shutdown: config.get(&server::SERVER_SHUTDOWN),
    }
}

/// Where alerts are sent.
fn notify(config: &Config) -> Result<Option<NotifyWebhook>, End> {
    let (url, secret) = (config.get(&server::ALERT_WEBHOOK_URL), config.get(&server::ALERT_WEBHOOK_SECRET));
    let Some(url) = url else { return Ok(None) };
    let refuse = |why: &dyn std::fmt::Display| config.refuse(&server::ALERT_WEBHOOK_SECRET, why);
    let secret = secret.ok_or_else(|| refuse(&"is needed beside alert.webhook-url: alerts are signed"))?;
    let secret: WebhookSecret = secret.parse().map_err(|e| refuse(&e))?;
    let webhook = NotifyWebhook::new(&url, secret).map_err(|e| config.refuse(&server::ALERT_WEBHOOK_URL, e))?;
    Ok(Some(webhook))
}

/// The kind of store that a URL names.
fn store_kind(url: &str) -> &str {
    url.split(':').next().unwrap_or_default()
}

/// Links by name. One that a browser would run instead of opening is refused.
fn links(config: &Config) -> Result<BTreeMap<String, String>, End> {
    let link = |text: String| {
        let (name, url) = text.split_once('=')?;
        let opens = url.starts_with("https://") || url.starts_with("http://");
        opens.then(|| (name.to_owned(), url.to_owned()))
    };
    let links = config.get(&server::SERVER_LINKS).into_iter().map(link).collect::<Option<_>>();
    let why = "each must be a name, = and an address with https:// or http://";
    Ok(links.ok_or_else(|| config.refuse(&server::SERVER_LINKS, why))?)
}

fn dead_head(config: &Config) -> DeadHead {
    match config.get(&server::ORDERING_DEAD_HEAD).as_str() {
        "skip" => DeadHead::Skip,
        _ => DeadHead::Hold,
    }
}

fn setting(one: postrider_config::Setting) -> Setting {
    Setting { key: one.key.into(), value: one.value, origin: one.origin.into() }
}

/// The bound listener of the API.
pub(crate) struct Endpoint {
    listener: TcpListener,
    tls: Option<Tls>,
    encrypted: bool,
    base_path: BasePath,
    /// Its URL, with the bound port and the base path.
    pub(crate) url: String,
}

/// Connections that the system holds until they are accepted. A burst beyond it would be tried again by its clients
/// after a second.
const BACKLOG: u32 = 4096;

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for connections of the last process.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Endpoint {
    /// Binds the configured address, unless it would serve unencrypted to other machines.
    pub(crate) async fn open(config: &Config) -> Result<Self, End> {
        let address = config.get(&server::LISTEN);
        let refuse = |why: &dyn std::fmt::Display| config.refuse(&server::LISTEN, why);
        let address: SocketAddr =
            address.parse().map_err(|_| refuse(&format_args!("{address:?} is no address such as 127.0.0.1:7070")))?;
        let tls = match (config.get(&server::TLS_CERT), config.get(&server::TLS_KEY)) {
            (None, None) => None,
            (Some(cert), Some(key)) => {
                let tls = Tls::from_files(Path::new(&cert), Path::new(&key));
                Some(tls.map_err(|e| config.refuse(&server::TLS_CERT, e))?)
            }
            (None, Some(_)) => return Err(config.refuse(&server::TLS_CERT, "is needed beside tls.key").into()),
            (Some(_), None) => return Err(config.refuse(&server::TLS_KEY, "is needed beside tls.cert").into()),
        };
        let encrypted = tls.is_some() || config.get(&server::BEHIND_PROXY);
        check_listen(address, encrypted).map_err(|e| refuse(&e))?;
        let base_path = BasePath::parse(&config.get(&server::SERVER_BASE_PATH));
        let base_path = base_path.map_err(|e| config.refuse(&server::SERVER_BASE_PATH, e))?;
        let listener = listen(address).map_err(|e| {
            refuse(&format_args!("{address}: {e}: --listen takes another address, and port 0 any that is free"))
        })?;
        let bound = listener.local_addr().map_err(|e| refuse(&e))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{bound}{}", base_path.as_str());
        Ok(Self { listener, tls, encrypted, base_path, url })
    }
}

/// The tasks of the process. If one fails, all are stopped.
pub(crate) struct Parts {
    stop: CancellationToken,
    working: JoinSet<Result<(), End>>,
    signals: Signals,
}

impl Parts {
    /// Handles signals from now on, so that one during the start stops the process too.
    pub(crate) fn new() -> Result<Self, End> {
        Ok(Self { stop: CancellationToken::new(), working: JoinSet::new(), signals: Signals::new()? })
    }

    /// Completes when the process is stopped.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stop.clone().cancelled_owned()
    }

    /// Runs a task, which must end when the process is stopped.
    pub(crate) fn spawn<E: Into<End>>(&mut self, work: impl Future<Output = Result<(), E>> + Send + 'static) {
        self.working.spawn(async move { work.await.map_err(Into::into) });
    }

    /// Serves the API.
    pub(crate) fn serve(&mut self, server: Server, endpoint: Endpoint) {
        let serving = server.serve(endpoint.listener, endpoint.tls, self.stopped());
        self.spawn(async move { serving.await.map_err(|e| End::Wrong(e.to_string())) });
    }

    /// Routes plain inserts, carries events to the broker and to webhooks, and prunes.
    pub(crate) fn relay(
        &mut self,
        plan: &Plan,
        store: &Arc<dyn Store>,
        reconciler: Option<&Reconciler>,
    ) -> Result<(), End> {
        let webhooks = Webhooks::new(plan.webhooks.clone())?;
        // `webhooks` runs relays for its own lanes. This relay routes and prunes, with a broker or without: its webhook
        // transport has no lanes.
        let relay = match (&plan.broker, reconciler) {
            (Some(broker), Some(reconciler)) => {
                let publisher = broker.publisher().options(plan.broker_lane.clone()).after(reconciler.clone());
                Relay::new(Arc::clone(store), publisher)
            }
            _ => Relay::new(Arc::clone(store), Webhooks::new(plan.webhooks.clone())?),
        };
        let relay = relay.options(plan.relay.clone()).retention(plan.retention.clone());
        self.spawn(relay.run(self.stopped()));
        self.spawn(webhooks.run(Arc::clone(store), plan.relay.clone(), self.stopped()));
        if let Some(broker) = &plan.broker {
            self.spawn(broker.receipts(Arc::clone(store)).run(self.stopped()));
        }
        Ok(())
    }

    /// Keeps the queues and bindings of the broker as the subscriptions ask; one instance at a time does.
    pub(crate) fn reconcile(&mut self, reconciler: Option<Reconciler>) {
        if let Some(reconciler) = reconciler {
            self.spawn(reconciler.run(self.stopped()));
        }
    }

    /// Runs the roll-up, bulk operations and alerts; leases ensure that one instance at a time does.
    pub(crate) fn upkeep(&mut self, plan: &Plan, store: &Arc<dyn Store>) {
        let owner = || plan.relay.owner.clone();
        let options = RollupOptions { owner: owner(), ..RollupOptions::default() };
        self.spawn(Rollup::new(Arc::clone(store)).options(options).run(self.stopped()));
        let options = OperationsOptions { owner: owner(), ..OperationsOptions::default() };
        self.spawn(Operations::new(Arc::clone(store)).options(options).run(self.stopped()));
        let alerting = Alerting::new(Arc::clone(store)).rules(plan.alerts.clone()).environment(&plan.environment);
        let alerting = alerting.owner(&plan.relay.owner);
        let alerting = match &plan.notify {
            Some(webhook) => alerting.notify(webhook.clone()),
            None => alerting,
        };
        self.spawn(alerting.run(self.stopped()));
    }

    /// Checks the promises, with the books of a service if there are any.
    pub(crate) fn promises(&mut self, plan: &Plan, store: &Arc<dyn Store>, books: Option<Arc<dyn BooksCheck>>) {
        let promises = Promises::new(Arc::clone(store)).owner(&plan.relay.owner);
        let promises = match books {
            Some(books) => promises.books(books),
            None => promises,
        };
        self.spawn(promises.run(self.stopped()));
    }

    /// Installs the recorder of metrics.
    pub(crate) fn metrics(&mut self) -> Result<PrometheusHandle, End> {
        let wrong = |e: &dyn std::fmt::Display| End::Wrong(format!("metrics cannot be recorded: {e}"));
        let mut builder = PrometheusBuilder::new();
        for metric in observe::METRICS.iter().filter(|metric| !metric.buckets.is_empty()) {
            let name = Matcher::Full(metric.name.into());
            builder = builder.set_buckets_for_metric(name, metric.buckets).map_err(|e| wrong(&e))?;
        }
        let metrics = builder.install_recorder().map_err(|e| wrong(&e))?;
        observe::describe();
        let (kept, stop) = (metrics.clone(), self.stop.clone());
        self.spawn(async move {
            while stop.run_until_cancelled(tokio::time::sleep(UPKEEP)).await.is_some() {
                kept.run_upkeep();
            }
            Ok::<_, End>(())
        });
        Ok(metrics)
    }

    /// Runs until a signal comes or a task fails. Then `first` completes, and after it all tasks stop. A second signal ends
    /// the process at once.
    pub(crate) async fn run_until_stopped(mut self, first: impl Future<Output = ()>) -> Result<(), End> {
        let ended = tokio::select! {
            () = self.signals.next() => None,
            ended = self.working.join_next() => ended,
        };
        let finishing = async {
            first.await;
            self.stop.cancel();
            let mut failure = ended.map(flat).and_then(Result::err);
            while let Some(ended) = self.working.join_next().await {
                failure = failure.or(flat(ended).err());
            }
            failure.map_or(Ok(()), Err)
        };
        tokio::select! {
            ended = finishing => ended,
            () = self.signals.second() => Err(End::Wrong("stopped at once: what was being worked on is left for the next start".into())),
        }
    }
}

fn flat(ended: Result<Result<(), End>, tokio::task::JoinError>) -> Result<(), End> {
    ended.unwrap_or_else(|error| Err(End::Wrong(format!("a task of the server panicked: {error}"))))
}

/// SIGINT from a terminal and SIGTERM from an orchestrator.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, End> {
        let handle = |kind| signal(kind).map_err(|e| End::Wrong(format!("signals cannot be handled: {e}")));
        Ok(Self { interrupt: handle(SignalKind::interrupt())?, terminate: handle(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// A second signal. A supervisor may forward the signal that the terminal has sent already, so the first second is
    /// ignored.
    async fn second(&mut self) {
        let same = async {
            loop {
                self.next().await;
            }
        };
        let _: Result<(), _> = tokio::time::timeout(SAME, same).await;
        self.next().await;
    }
}

#[cfg(test)]
mod tests {
    use postrider_config::Sources;

    use super::*;

    fn plan(set: &[&str]) -> Plan {
        let set: Vec<_> = set.iter().map(ToString::to_string).collect();
        let sources =
            Sources { defaults: Vec::new(), file: None, environment: Vec::new(), set: &set, flags: Vec::new() };
        let config = Config::load(&[server::ALL], sources).expect("a configuration");
        Plan::of(&config, "test", Shards::ALL).ok().expect("a plan")
    }

    /// A.4: batches of 100 by default, and a look every ten seconds at least.
    #[test]
    fn the_configuration_reaches_the_batches_and_the_schedule_of_the_relay() {
        let reads = |plan: &Plan| {
            let floor = plan.relay.floor.as_ref().expect("a schedule");
            (plan.webhooks.lanes.batch, floor.expression().to_owned(), floor.zone().to_owned())
        };
        assert_eq!(reads(&plan(&[])), (100, "0/10 * * * * ?".to_owned(), "UTC".to_owned()));
        let set = ["outbox.batch-size=7", "outbox.publisher-cron=0/5 * * * * ?", "scheduler.time-zone=Asia/Shanghai"];
        assert_eq!(reads(&plan(&set)), (7, "0/5 * * * * ?".to_owned(), "Asia/Shanghai".to_owned()));
    }

    /// G.10, A.17: each threshold of the alerts is configured by its own key.
    #[test]
    fn the_configuration_reaches_the_alerts() {
        let rules = plan(&[
            "alert.dead-per-hour=2",
            "alert.oldest-seconds=3",
            "alert.stalled-seconds=4",
            "alert.broker-blocked-seconds=5",
            "alert.store-away-seconds=6",
        ])
        .alerts;
        let seconds = [rules.oldest, rules.stalled, rules.broker_blocked, rules.store_away].map(|one| one.as_secs());
        assert_eq!((rules.dead_per_hour, seconds), (2, [3, 4, 5, 6]));
    }

    /// A.17: what is configured for lanes reaches the broker's. Its claims are larger only if no size is configured.
    #[test]
    fn the_configuration_reaches_the_lane_of_the_broker() {
        let lane = |set: &[&str]| plan(set).broker_lane;
        let (usual, default) = (Publisher::default_options(), lane(&[]));
        assert_eq!((default.batch, default.concurrency), (usual.batch, usual.concurrency));
        let set = lane(&[
            "outbox.batch-size=7",
            "outbox.max-retry-count=3",
            "outbox.backoff-cap-seconds=5",
            "outbox.backoff-jitter=0",
            "ordering.dead-head=skip",
            "limits.claim-bytes=100000",
            "limits.lane-bytes=200000",
        ]);
        assert_eq!((set.batch, set.retry.max_attempts, set.dead_head), (7, 3, DeadHead::Skip));
        assert_eq!((set.claim_bytes, set.lane_bytes), (100_000, 200_000));
        assert_eq!((set.retry.cap, set.retry.jitter), (Duration::from_secs(5), 0.0));
    }
}
