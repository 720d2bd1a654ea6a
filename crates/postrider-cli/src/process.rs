//! What a process that serves is made of: its plan, its door, and the parts that work behind it until it is told to stop.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use postrider::jobs::Schedule;
use postrider::observe;
use postrider::operations::{Operations, OperationsOptions};
use postrider::redrive::RedriveRules;
use postrider::store::DeadHead;
use postrider::transport::rabbitmq::Publisher;
use postrider::transport::webhook::{WebhookOptions, WebhookSecret, Webhooks};
use postrider::{
    LaneOptions, RabbitMq, Relay, RelayOptions, Retention, RetryPolicy, Rollup, RollupOptions, Shards, Store,
};
use postrider_server::{Options, Server, Tls, check_listen};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::End;
use crate::config::Config;

/// Signals within this time are one.
const SAME: Duration = Duration::from_secs(1);
/// How often the exporter tidies up.
const UPKEEP: Duration = Duration::from_secs(5);

/// Everything that follows from the configuration.
pub(crate) struct Plan {
    pub(crate) retry: RetryPolicy,
    redrive: RedriveRules,
    relay: RelayOptions,
    pub(crate) retention: Retention,
    webhooks: WebhookOptions,
    broker: Option<RabbitMq>,
}

impl Plan {
    pub(crate) fn of(config: &Config, owner: &str, shards: Shards) -> Result<Self, End> {
        let retry = RetryPolicy {
            max_attempts: u32::try_from(config.number("outbox.max-retry-count")).unwrap_or(u32::MAX),
            cap: config.seconds("outbox.backoff-cap-seconds"),
            jitter: config.share("outbox.backoff-jitter"),
            ..RetryPolicy::default()
        };
        let lanes = LaneOptions {
            retry: retry.clone(),
            batch: u32::try_from(config.number("outbox.batch-size")).unwrap_or(u32::MAX),
            dead_head: dead_head(config),
            ..LaneOptions::default()
        };
        let zone = config.text("scheduler.time-zone").unwrap_or("UTC");
        let cron = config.text("outbox.publisher-cron").unwrap_or_default();
        let relay = RelayOptions {
            lease: config.seconds("outbox.lease-seconds"),
            shards,
            floor: Some(Schedule::parse(cron, zone).map_err(|e| config.refuse("outbox.publisher-cron", e))?),
            owner: format!("{owner}-{}", std::process::id()),
            ..RelayOptions::default()
        };
        let redrive = RedriveRules {
            max_count: u32::try_from(config.number("redrive.max-count")).unwrap_or(u32::MAX),
            sent_older_than: config.seconds("redrive.sent-older-than-seconds"),
            horizon: config.days("redrive.horizon-days"),
        };
        let retention = Retention {
            finished: config.days("retention.finished-days"),
            inbox: config.days("retention.inbox-days"),
            redrive_horizon: redrive.horizon,
            archive: config.text("retention.archive-dir").map(Into::into),
            ..Retention::default()
        };
        retention.check(&retry).map_err(|e| config.refuse("retention.inbox-days", e))?;
        let mut secrets: Vec<WebhookSecret> = Vec::new();
        for key in ["webhook.secret", "webhook.previous-secret"] {
            if let Some(text) = config.text(key) {
                secrets.push(text.parse().map_err(|e| config.refuse(key, e))?);
            }
        }
        let webhooks = WebhookOptions {
            secrets,
            timeout: config.seconds("webhook.timeout-seconds"),
            allow_hosts: config.list("webhook.allow-hosts"),
            lanes,
        };
        let broker = config.text("broker").map(RabbitMq::new).transpose().map_err(|e| config.refuse("broker", e))?;
        Ok(Self { retry, redrive, relay, retention, webhooks, broker })
    }

    /// What the API is told.
    pub(crate) fn options(&self, config: &Config, door: &Door, metrics: PrometheusHandle) -> Options {
        Options {
            retry: self.retry.clone(),
            lease: self.relay.lease,
            redrive: self.redrive,
            dead_head: dead_head(config),
            payload_bytes: usize::try_from(config.number("limits.payload-bytes")).unwrap_or(usize::MAX),
            requests_per_second: u32::try_from(config.number("limits.requests-per-second")).unwrap_or(u32::MAX),
            longest_wait: config.seconds("limits.wait-seconds"),
            broker: self.broker.is_some(),
            webhooks: !self.webhooks.secrets.is_empty(),
            secure: door.encrypted,
            settings: config.settings(),
            metrics: Some(metrics),
        }
    }
}

fn dead_head(config: &Config) -> DeadHead {
    match config.text("ordering.dead-head") {
        Some("skip") => DeadHead::Skip,
        _ => DeadHead::Hold,
    }
}

/// Where requests come in.
pub(crate) struct Door {
    listener: TcpListener,
    tls: Option<Tls>,
    encrypted: bool,
    /// As others reach it.
    pub(crate) url: String,
}

impl Door {
    /// Listens where the configuration says, if it may.
    pub(crate) async fn open(config: &Config) -> Result<Self, End> {
        let address = config.text("listen").unwrap_or_default();
        let address: SocketAddr = address
            .parse()
            .map_err(|_| config.refuse("listen", format!("{address:?} is no address such as 127.0.0.1:7070")))?;
        let tls = match (config.text("tls.cert"), config.text("tls.key")) {
            (None, None) => None,
            (Some(cert), Some(key)) => {
                let tls = Tls::from_files(Path::new(cert), Path::new(key));
                Some(tls.map_err(|e| config.refuse("tls.cert", e))?)
            }
            (None, Some(_)) => return Err(config.refuse("tls.cert", "is needed beside tls.key").into()),
            (Some(_), None) => return Err(config.refuse("tls.key", "is needed beside tls.cert").into()),
        };
        let encrypted = tls.is_some() || config.flag("behind-proxy");
        check_listen(address, encrypted).map_err(|e| config.refuse("listen", e))?;
        let listener = TcpListener::bind(address).await.map_err(|e| {
            config.refuse(
                "listen",
                format!("{address}: {e}: --listen takes another address, and port 0 any that is free"),
            )
        })?;
        let bound = listener.local_addr().map_err(|e| config.refuse("listen", e))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        Ok(Self { listener, tls, encrypted, url: format!("{scheme}://{bound}") })
    }
}

/// What works until it is told to stop. Where one of them fails, all of them end.
pub(crate) struct Parts {
    stop: CancellationToken,
    working: JoinSet<Result<(), End>>,
    signals: Signals,
}

impl Parts {
    /// Signals are heard from now on: one that comes before anything works ends it as well as a later one.
    pub(crate) fn new() -> Result<Self, End> {
        Ok(Self { stop: CancellationToken::new(), working: JoinSet::new(), signals: Signals::hear()? })
    }

    /// Ready when it is time to stop.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stop.clone().cancelled_owned()
    }

    /// One more, which ends when it is time to stop.
    pub(crate) fn spawn<E: Into<End>>(&mut self, work: impl Future<Output = Result<(), E>> + Send + 'static) {
        self.working.spawn(async move { work.await.map_err(Into::into) });
    }

    /// Answers requests.
    pub(crate) fn serve(&mut self, server: Server, door: Door) {
        let serving = server.serve(door.listener, door.tls, self.stopped());
        self.spawn(async move { serving.await.map_err(|e| End::Wrong(e.to_string())) });
    }

    /// Routes plain inserts, carries events to the broker and to webhooks, and prunes.
    pub(crate) fn relay(&mut self, plan: &Plan, store: &Arc<dyn Store>) -> Result<(), End> {
        let webhooks = Webhooks::new(plan.webhooks.clone())?;
        // The relay of webhooks comes and goes with its lanes; this one stays. Before it is read, the transport has no lanes.
        let relay = match &plan.broker {
            Some(broker) => {
                let dead_head = plan.webhooks.lanes.dead_head;
                let options = LaneOptions { dead_head, ..Publisher::default_options() };
                Relay::over(Arc::clone(store), Arc::new(broker.publisher().options(options)))
            }
            None => Relay::over(Arc::clone(store), Arc::new(Webhooks::new(plan.webhooks.clone())?)),
        };
        let relay = relay.options(plan.relay.clone()).retention(plan.retention.clone());
        self.spawn(relay.run(self.stopped()));
        self.spawn(webhooks.run(Arc::clone(store), plan.relay.clone(), self.stopped()));
        if let Some(broker) = &plan.broker {
            self.spawn(broker.receipts(Arc::clone(store)).run(self.stopped()));
        }
        Ok(())
    }

    /// Keeps statuses and works on bulk operations, whenever no other instance does.
    pub(crate) fn upkeep(&mut self, plan: &Plan, store: &Arc<dyn Store>) {
        let owner = || plan.relay.owner.clone();
        let options = RollupOptions { owner: owner(), ..RollupOptions::default() };
        self.spawn(Rollup::new(Arc::clone(store)).options(options).run(self.stopped()));
        let options = OperationsOptions { owner: owner(), ..OperationsOptions::default() };
        self.spawn(Operations::new(Arc::clone(store)).options(options).run(self.stopped()));
    }

    /// Keeps figures for whoever scrapes them.
    pub(crate) fn metrics(&mut self) -> Result<PrometheusHandle, End> {
        let wrong = |e: &dyn std::fmt::Display| End::Wrong(format!("metrics cannot be kept: {e}"));
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

    /// Works until somebody says stop, or a part fails; then `first` ends, and all parts after it. Said again, stop means now.
    pub(crate) async fn until_told(mut self, first: impl Future<Output = ()>) -> Result<(), End> {
        let ended = tokio::select! {
            () = self.signals.one() => None,
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
            () = self.signals.another() => Err(End::Wrong("stopped at once: what was being worked on is left for the next start".into())),
        }
    }
}

fn flat(ended: Result<Result<(), End>, tokio::task::JoinError>) -> Result<(), End> {
    ended.unwrap_or_else(|error| Err(End::Wrong(format!("a part of the server ended badly: {error}"))))
}

/// Ctrl-C, and what orchestrators send.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn hear() -> Result<Self, End> {
        let hear = |kind| signal(kind).map_err(|e| End::Wrong(format!("signals cannot be heard: {e}")));
        Ok(Self { interrupt: hear(SignalKind::interrupt())?, terminate: hear(SignalKind::terminate())? })
    }

    async fn one(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// One that is meant as another: whoever starts this for somebody may pass on what the terminal has sent already.
    async fn another(&mut self) {
        let same = async {
            loop {
                self.one().await;
            }
        };
        let _: Result<(), _> = tokio::time::timeout(SAME, same).await;
        self.one().await;
    }
}
